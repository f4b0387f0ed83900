"""A log and a plain model of it live through the same life, whatever Hypothesis makes of it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from adsum.dedup import DedupKey
from adsum.raft.batch import LogChange
from adsum.raft.types import Entry, HardState, MemberId, Term
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull
from adsum.storage.opening import OpenedLog
from adsum.storage.recovery import LogVerdict
from adsum.testing.block_disk import BlockDisk, PowerLost
from tests.storage.raft_logs import Model, entry, opened, snapshot

datas = st.one_of(
    st.binary(max_size=40),
    st.integers(0, 3000).map(bytes),
    st.integers(0, 3000).map(lambda size: b"\x5a" * size),
)
dedups = st.none() | st.builds(
    DedupKey, st.sampled_from(["a", "ä" * 9]), *[st.integers(0, 2**63)] * 3, st.integers(0, 2**32 - 1)
)
several = st.lists(st.tuples(datas, dedups), max_size=6)
votes = st.none() | st.builds(MemberId, st.sampled_from(["b", "c"]), st.just("log"))


class LogAgainstModel(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.disk = BlockDisk(Random(seed))
        self.model = Model()
        self.minted = 0
        self.term = 1
        self.open()

    # What the core does.

    @rule(what=several, vote=votes, commit=st.integers(0, 8), new_term=st.integers(0, 2))
    def append(
        self, what: list[tuple[bytes, DedupKey | None]], vote: MemberId | None, commit: int, new_term: int
    ) -> None:
        self.term += new_term
        added = self.made(self.last + 1, what)
        self.change(LogChange(entries=added, hard_state=self.state(vote, commit, self.last + len(added))))

    @rule(cut=st.integers(1, 9), what=several, vote=votes)
    def truncate(self, cut: int, what: list[tuple[bytes, DedupKey | None]], vote: MemberId | None) -> None:
        first = max(self.model.hard_state.commit, self.model.snapshot_index, self.last - cut) + 1
        self.term += 1
        added = self.made(first, what)
        hard_state = self.state(vote, 0, first)
        self.change(LogChange(truncate_from=first, entries=added, hard_state=hard_state))

    @rule(commit=st.integers(0, 9))
    def move_commit(self, commit: int) -> None:
        vote = self.model.hard_state.vote
        self.change(
            LogChange(hard_state=self.state(vote, commit, self.last, term=self.model.hard_state.term))
        )

    @rule(further=st.integers(1, 50), what=several)
    def install(self, further: int, what: list[tuple[bytes, DedupKey | None]]) -> None:
        index = self.last + further
        term = max(self.term, self.model.hard_state.term)

        def install() -> LogChange:
            ref = snapshot(self.opened.log, index, term)
            hard_state = HardState(Term(term), None, index)
            return LogChange(install=ref, entries=self.made(index + 1, what), hard_state=hard_state)

        self.change(install)

    @rule(keep=st.integers(0, 5))
    @precondition(lambda self: self.applied > self.model.snapshot_index)
    def compact(self, keep: int) -> None:
        index = self.applied
        before = [found for found in self.model.kept if found.index == index]
        after = self.model.compacted(index)

        def act() -> None:
            ref = snapshot(self.opened.log, index, before[0].term)
            self.opened.log.compact(ref, max(1, index - keep))

        self.attempt(act, [after])

    @rule()
    def prepare(self) -> None:
        self.attempt(self.opened.log.prepare_next, [self.model])

    # What happens to it.

    @rule()
    def lose_power(self) -> None:
        self.disk.lose_power()
        self.reopened([self.model])

    @rule(operations=st.integers(0, 12))
    def power_will_fail(self, operations: int) -> None:
        self.disk.faults.crash_before = operations

    @rule()
    def kill(self) -> None:
        self.disk.kill()
        self.reopened([self.model])

    @rule()
    def close(self) -> None:
        self.attempt(self.opened.log.close, [self.model], is_end=True)

    @rule()
    def sync_will_fail(self) -> None:
        self.disk.faults.failing_syncs = True

    @rule(room=st.none() | st.integers(0, 30_000))
    def disk_has_room(self, room: int | None) -> None:
        used = sum(self.disk.bits(name) // 8 for name in self.disk.names())
        self.disk.faults.capacity_bytes = None if room is None else used + room

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        log = self.opened.log
        assert log.last_index == self.last
        assert log.first_index <= self.model.snapshot_index + 1
        mine = [found for found in self.model.kept if found.index >= log.first_index]
        assert list(log.entries(log.first_index, log.last_index)) == mine
        assert log.hard_state == self.model.hard_state

    # Inside.

    @property
    def last(self) -> int:
        return self.model.kept[-1].index if self.model.kept else self.model.snapshot_index

    @property
    def applied(self) -> int:
        return max(min(self.model.hard_state.commit, self.last), self.model.snapshot_index)

    def made(self, first: int, what: list[tuple[bytes, DedupKey | None]]) -> list[Entry]:
        return [entry(first + at, self.term, data, dedup=dedup) for at, (data, dedup) in enumerate(what)]

    def state(self, vote: MemberId | None, commit: int, last: int, *, term: int = 0) -> HardState:
        known = self.model.hard_state.commit
        return HardState(Term(term or self.term), vote, max(known, min(known + commit, last)))

    def change(self, change: LogChange | Callable[[], LogChange]) -> None:
        """What was on its way when an accident came may be there or not; nothing else may have moved."""
        may_be = [self.model]

        def act() -> None:
            made = change() if callable(change) else change
            may_be[:] = [*self.model.parts_of(made), self.model.after(made)]
            self.opened.log.append([made])

        self.attempt(act, may_be)

    def attempt(self, act: Callable[[], None], may_be: list[Model], *, is_end: bool = False) -> None:
        before = self.model
        try:
            act()
        except PowerLost:
            self.disk.lose_power()
            self.reopened([before, *may_be])
        except StorageFailed:
            self.disk.kill()
            self.reopened([before, *may_be])
        except DiskFull:
            return
        else:
            self.model = may_be[-1]
            if is_end:
                self.reopened([self.model])

    def reopened(self, may_be: list[Model]) -> None:
        self.disk.faults.failing_syncs = False
        self.disk.faults.crash_before = None
        self.disk.faults.capacity_bytes = None
        found = self.open()
        assert found.verdict is not LogVerdict.CORRUPT, found.findings
        fitting = [model for model in may_be if model.explains(found.restored, but_commit=True)]
        assert fitting, found.restored
        self.model = fitting[0].after(LogChange(hard_state=found.restored.hard_state))
        self.term = max(self.term, self.model.hard_state.term)

    def open(self) -> OpenedLog:
        self.opened = opened(self.disk)
        return self.opened


LogAgainstModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_the_log_holds_what_the_model_holds_through_any_life = LogAgainstModel.TestCase
