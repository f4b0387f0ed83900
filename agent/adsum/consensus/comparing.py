"""Whether this server holds what the others hold: they compare hashes of their states.

Each takes one every so many entries, at the same indexes, and tells it its leader with each answer to a
heartbeat. The leader judges, and tells all with each heartbeat: what a majority of the voters has is right.
Who has something else at that index applies nothing more and leads nobody: its answers may be wrong, and what
it would apply to a wrong state is wrong as well. It goes on storing the log, so that nothing is missing to
the others, and it keeps its files, for somebody has to find out what happened. Where hashes differ and none
is a majority's, as where one server stands against another, nobody knows who is right: all go on, and answer
nothing that may be stale.

A state that once differs goes on to differ, so a hash that nobody compared, as of a server that was away, is
made up for by the next. Hashes of versions that make them otherwise are not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from adsum.consensus.effects import StateDoubted
from adsum.effects import LogLine, Severity
from adsum.raft.quorum import VoteOutcome, tally
from adsum.raft.types import NOT_JUDGED, JudgedHash, MemberId, StateHash

if TYPE_CHECKING:
    from adsum.consensus.core import ConsensusCore

Kept = TypeVar("Kept")

HASHES_KEPT = 64  # of the newest indexes

WHAT_TO_DO = (
    "Stop it, move the folder raft out of its data_dir, keep that for whoever looks for the cause, and start "
    "it again: it is brought the state of the others"
)


class Comparing:
    def __init__(self, core: ConsensusCore) -> None:
        self.agreed = 0  # times that a majority had one hash, and this server had it, too
        self.is_disputed = False
        self.difference = ""  # why nothing more is applied here
        self._core = core
        self._every = core.settings.hash_entries
        self._own: dict[int, bytes] = {}  # by index, rising
        self._told: dict[int, dict[MemberId, bytes]] = {}  # to this leader
        self._seen: tuple[object, ...] = ()  # what was judged last
        self._heeded = NOT_JUDGED
        self._named: dict[MemberId, None] = {}  # of whom this leader has said that they differ
        self.next_index = 0  # where the next hash is taken
        self.restored(core.applied)

    @property
    def doubt(self) -> str:
        """Empty if there is none."""
        return "differs" if self.difference else "disputed" if self.is_disputed else ""

    def restored(self, index: int) -> None:
        """The state machine stands on a snapshot of this index now: what it had before is gone."""
        self._own.clear()
        self.next_index = index - index % self._every + self._every

    def reached(self) -> None:
        """The state machine stands on `next_index`."""
        index, hash_ = self.next_index, self._core.machine.hash()
        self.next_index += self._every
        if hash_ is not None:
            _keep(self._own, index, hash_)
            self._core.raft.tell_hash(StateHash(index, hash_))

    def look(self) -> None:
        """With every tick."""
        core = self._core
        if self.difference or core.raft.replica.log.is_restoring:
            return
        if core.is_leader:
            self._judge()
        elif self._told:
            self._told, self._seen, self._named = {}, (), {}
        self._heed(core.raft.replica.judged)

    # A leader's.

    def _judge(self) -> None:
        replica = self._core.raft.replica
        told = self._core.raft.hashes_told
        seen = (told, replica.state_hash, replica.configuration)
        if seen == self._seen:
            return
        self._seen = seen
        for member, (index, hash_) in told.items():
            _keep(self._told, index, self._told.get(index, {}) | {member: hash_})
        for index in sorted(self._own, reverse=True):
            judged = self._judgement(index)
            if judged is not None:
                self._core.raft.judge(judged)
                self._name_others(judged)
                return

    def _judgement(self, index: int) -> JudgedHash | None:
        """None: not enough have told theirs."""
        configuration = self._core.raft.replica.configuration
        own, hashes = self._own[index], self._hashes_at(index)
        for each in dict.fromkeys(hashes.values()):
            holders = {member: True for member, hash_ in hashes.items() if hash_ == each}
            if tally(configuration, holders) is VoteOutcome.WON:
                return JudgedHash(index, each)
        are_all_alike = all(hash_ == own for hash_ in hashes.values())
        return None if are_all_alike else JudgedHash(index, own, is_disputed=True)

    def _hashes_at(self, index: int) -> dict[MemberId, bytes]:
        replica, own = self._core.raft.replica, self._own[index]
        told = self._told.get(index, {})
        members = [each for each in replica.configuration.members() if each in told]
        comparable = {each: told[each] for each in members if _are_made_alike(told[each], own)}
        return {replica.me: own} | comparable

    def _name_others(self, judged: JudgedHash) -> None:
        hashes = self._hashes_at(judged.index)
        others = [each for each in hashes if hashes[each] != judged.hash and each not in self._named]
        for member in others if not judged.is_disputed else ():
            self._named[member] = None
            sentence = (
                f"the state of {member.node} differs at index {judged.index}: {hashes[member].hex()} there, "
                f"{judged.hash.hex()} on a majority of the voters. It applies nothing more. {WHAT_TO_DO}"
            )
            self._core.emit(LogLine(Severity.ERROR, sentence))

    # Everybody's.

    def _heed(self, judged: JudgedHash) -> None:
        own = self._own.get(judged.index)
        if judged == self._heeded or own is None or not _are_made_alike(judged.hash, own):
            return
        self._heeded = judged
        if judged.is_disputed:
            self._dispute(judged, own)
        elif own == judged.hash:
            self.agreed += 1
            self._agree(judged)
        else:
            self._stop(judged, own)

    def _dispute(self, judged: JudgedHash, own: bytes) -> None:
        if self.is_disputed:
            return
        self.is_disputed = True
        sentence = (
            f"servers differ in their state at index {judged.index}, and none has that of a majority: "
            f"{own.hex()} here, {judged.hash.hex()} on the leader. Stale reads are refused until a majority "
            "agrees. Bring the other voters back, or see which server was changed or repaired last"
        )
        self._core.emit(LogLine(Severity.ERROR, sentence))
        self._core.emit(StateDoubted("servers differ in their state, and none has that of a majority"))

    def _agree(self, judged: JudgedHash) -> None:
        if self.is_disputed:
            self.is_disputed = False
            sentence = f"a majority agrees on the state again, at index {judged.index}"
            self._core.emit(LogLine(Severity.INFO, f"{sentence}, and so does this server"))
            self._core.emit(StateDoubted(""))

    def _stop(self, judged: JudgedHash, own: bytes) -> None:
        self.is_disputed = False
        self.difference = f"this server's state differs from that of a majority at index {judged.index}"
        sentence = (
            f"{self.difference}: {own.hex()} here, {judged.hash.hex()} there. Nothing more is applied here, "
            f"no key is read here, and no file is removed. {WHAT_TO_DO}"
        )
        self._core.emit(LogLine(Severity.ERROR, sentence))
        self._core.stop_applying(self.difference)
        self._core.emit(StateDoubted(self.difference, has_stopped=True))


def _are_made_alike(one: bytes, other: bytes) -> bool:
    return one[:1] == other[:1]


def _keep(kept: dict[int, Kept], index: int, value: Kept) -> None:
    kept[index] = value
    if len(kept) > HASHES_KEPT:
        del kept[min(kept)]
