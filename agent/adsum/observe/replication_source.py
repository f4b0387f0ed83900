"""Where the numbers of replication are kept: how much of others is here, how it came, and what went wrong.

None of it is by owner: `adsum catalog owners` lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import get_args

from adsum.agent.cluster_state import ClusterState
from adsum.catalog.replication.owner_table import OwnerEntry
from adsum.catalog.replication.tally import Drop, ReplicationTally
from adsum.frozen import dataclass
from adsum.logs.stale_reasons import REASONS
from adsum.now import SECOND, Now
from adsum.peers.outputs import OutputCounters, Outputs
from adsum.peers.owner_forwarding import OwnerForwarding, OwnersCounters

DROPS: tuple[str, ...] = get_args(Drop)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSource:
    """`of` makes one of a roll; without arguments it has nobody's."""

    tally: ReplicationTally = field(default_factory=ReplicationTally)
    owners: Callable[[], list[OwnerEntry]] = list
    staleness: Callable[[], str] = str
    behind_ns: Callable[[], int] = int
    bad_items: Callable[[], int] = int
    forwards: OwnersCounters = field(default_factory=OwnersCounters)
    outputs: OutputCounters = field(default_factory=OutputCounters)
    outputs_refused: Callable[[], int] = int

    @classmethod
    def of(
        cls, cluster: ClusterState, owners: OwnerForwarding, outputs: Outputs, now: Callable[[], Now]
    ) -> ReplicationSource:
        sharing = cluster.sharing
        return cls(
            tally=sharing.replication.tally,
            owners=lambda: list(sharing.replication.owners().values()),
            staleness=lambda: cluster.staleness(now()),
            behind_ns=lambda: cluster.behind_ns(now()),
            bad_items=lambda: sharing.mirror.bad_items,
            forwards=owners.counters,
            outputs=outputs.counters,
            outputs_refused=lambda: owners.mine.outputs_refused,
        )

    def owners_by_state(self) -> dict[str, int]:
        counts = {"complete": 0, "incomplete": 0, "unheard": 0}
        for holding in self.owners():
            if holding.state is None:
                counts["unheard"] += 1
            else:
                counts["complete" if holding.state.is_complete else "incomplete"] += 1
        return counts

    def items(self) -> int:
        return sum(len(holding.state.items) for holding in self.owners() if holding.state is not None)

    def size_bytes(self) -> int:
        return sum(holding.state.size_bytes for holding in self.owners() if holding.state is not None)

    def stale(self) -> dict[str, int]:
        reason = self.staleness()
        return {each: int(each == reason) for each in REASONS}

    def behind_s(self) -> float:
        return self.behind_ns() / SECOND

    def drops(self) -> dict[str, int]:
        counted: dict[str, int] = {str(reason): count for reason, count in self.tally.dropped.items()}
        return {reason: counted.get(reason, 0) for reason in DROPS}
