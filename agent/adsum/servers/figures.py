"""How consensus stands on this server, for pages and the command line."""

from __future__ import annotations

from adsum.leading import ConsensusFigures, PeerFigures
from adsum.servers.driver import Driver


def figures_of(driver: Driver, behind_ms: int) -> ConsensusFigures:
    status, log = driver.core.raft.status(), driver.core.raft.replica.log
    matched = {peer.member: peer.match for peer in status.members}
    configuration = status.configuration
    return ConsensusFigures(
        role=status.role.value,
        term=status.hard_state.term,
        leader="" if status.leader is None else status.leader.node,
        leader_since_ms=driver.leader_since_ms,
        behind_ms=behind_ms,
        last_log_index=status.last_index,
        last_log_term=log.last_term,
        commit_index=status.hard_state.commit,
        applied_index=status.applied,
        snapshot_index=log.snapshot.index,
        snapshot_term=log.snapshot.term,
        peers=tuple(
            PeerFigures(member.node, configuration.is_voter(member), matched.get(member))
            for member in configuration.members()
        ),
        doubt=driver.core.comparing.doubt,
    )
