"""Even ticks for the core of raft, and what to believe after a pause.

One tick every 50 ms, times the multiplier; those that are a little late are made up for, one by one. After a
gap of more than three ticks (a stopped process, a suspended host) those that were missed are not: the core
counts ticks, and a burst of them would look like a silence of the others. Somebody else may lead by then, and
have renewed what would be expired here. So until a quorum has confirmed that we lead, time is not trusted,
and whoever expires something asks that first: the core, with its time, for the flag here does not know it.

Whatever wakes first after a pause brings the time with it, and the gap is looked for wherever time comes in:
a pause that only the next tick noticed would be over for everybody who came before that tick.
"""

from __future__ import annotations

PAUSE_TICKS = 3


class Pace:
    def __init__(self, tick_ns: int, now_ns: int) -> None:
        self.is_time_trusted = True
        self.is_proving = False
        self.pauses = 0
        self.stood_ns = 0  # all pauses together
        self.due_ns = now_ns + tick_ns
        self._tick_ns = tick_ns

    def stood_still_ns(self, now_ns: int) -> int:
        """How long this process stood still until now; 0 if it did not."""
        gap_ns = now_ns - self.due_ns
        if gap_ns <= PAUSE_TICKS * self._tick_ns:
            return 0
        self.pauses += 1
        self.stood_ns += gap_ns
        self.is_time_trusted = self.is_proving = False  # whoever does not lead may do so in a moment
        self.due_ns = now_ns
        return gap_ns

    def take(self, now_ns: int) -> None:
        """One tick that is due."""
        assert now_ns >= self.due_ns, "a tick is taken when it is due"
        self.due_ns += self._tick_ns

    @property
    def must_prove(self) -> bool:
        """A read, whose outcome belongs into `proven`."""
        return not self.is_time_trusted and not self.is_proving

    def proven(self, outcome: object, pauses: int, *, is_leader: bool) -> None:
        """What fails is asked again with the next tick, for as long as we seem to lead. `pauses`: how many
        there were when it was asked; an answer from before the last one proves nothing after it."""
        if pauses == self.pauses:
            self.is_proving = False
            self.is_time_trusted = isinstance(outcome, int) or not is_leader
