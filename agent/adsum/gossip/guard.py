"""What keeps an agent in trouble from troubling others.

- A loop that stood still (suspend, SIGSTOP, throttling) finds its timers overdue and no answers: nothing
  that was in flight counts, suspicions wait that much longer, and nobody is accused before the roster was
  compared with a peer. What it knows is as old as the pause until then, and that is known before the first
  overdue timer fires: by the time at which somebody asks.
- Who fails to reach a good part of its targets has lost its own network, not met so many dead: it may not
  accuse.
- Whose accusations are refuted again and again is muted for a while.
- Who reaches less than half of its last targets is isolated, and says so at once: that takes no verdict. A
  target counts by its last answer, and helpers are targets too: who is cut off knows it after a probe or
  three, long before a silence of others becomes a verdict.
"""

from __future__ import annotations

from collections import deque

from adsum.now import MINUTE

TARGETS_REMEMBERED = 20
TARGETS_FAILED_MAX = 6  # 30 % of them
ISOLATION_TARGETS = 10
ISOLATION_FAILED_MIN = 2  # of a single other, nobody can tell whose fault it is
REFUTED_MAX = 3
REFUTED_WITHIN_NS = MINUTE
PAUSE_INTERVALS = 2
FORGOTTEN_INTERVALS = 15
SILENT_SHARE = 3  # one in so many dead by silence at once is more likely our own trouble


class Guard:
    def __init__(self, interval_ns: int, started_ns: int = 0) -> None:
        self.mutes = 0
        self.pauses = 0
        self.paused_ns = 0  # all of them together
        self.is_isolated = False
        self.ran_ns = 0  # when anything last came in, or a timer fired
        self.is_timed = False  # from the first tick on: before it, what this agent is made of is being loaded
        self.awaits_comparison = False  # there was a pause, and no roster was compared since
        self._interval_ns = interval_ns
        self._probed_ns = started_ns  # when anybody last asked whether I live
        self._pause_ns = PAUSE_INTERVALS * interval_ns
        self._failed: deque[tuple[bytes, bool]] = deque(maxlen=TARGETS_REMEMBERED)
        self._last: deque[tuple[bytes, bool]] = deque(maxlen=ISOLATION_TARGETS)
        self._refuted_ns: deque[int] = deque(maxlen=REFUTED_MAX)
        self._muted_until_ns = 0
        self._accuse_after_ns = 0
        self._silent_ns: deque[int] = deque()

    # May I accuse?

    def may_accuse(self, now_ns: int, target: bytes) -> bool:
        """What failed with the target itself speaks against the target: of four members one that is gone
        fails a third of all probes, and would never be accused."""
        is_in_time = now_ns >= self._muted_until_ns and now_ns >= self._accuse_after_ns
        failed = sum(is_failed and probed != target for probed, is_failed in self._failed)
        return is_in_time and failed < TARGETS_FAILED_MAX

    def asked(self, helper: bytes, *, is_failed: bool) -> None:
        """A helper that did not even say that it got no answer was tried in vain too."""
        self._last.append((helper, is_failed))

    def probed(self, target: bytes, *, is_failed: bool, others: int) -> bool:
        """One of so many others. True when this made me isolated or ended it."""
        self._failed.append((target, is_failed))
        self._last.append((target, is_failed))
        failed = sum(dict(self._last).values())
        is_isolated = failed >= ISOLATION_FAILED_MIN and 2 * failed > min(others, ISOLATION_TARGETS)
        was_isolated, self.is_isolated = self.is_isolated, is_isolated
        return was_isolated != self.is_isolated

    def replaced(self, target: bytes) -> None:
        """It was not there any more: that it did not answer says nothing about me."""
        self._failed = deque((each for each in self._failed if each[0] != target), maxlen=TARGETS_REMEMBERED)

    # Does anybody list me?

    def was_probed(self, now_ns: int) -> None:
        self._probed_ns = now_ns

    def is_forgotten(self, now_ns: int) -> bool:
        """Whoever is listed is probed once a period on average. All whom I know may have moved, or been
        replaced."""
        return now_ns - self._probed_ns > FORGOTTEN_INTERVALS * self._interval_ns

    # Am I wrong too often?

    def was_refuted(self, now_ns: int, mute_ns: int) -> None:
        self._refuted_ns.append(now_ns)
        if len(self._refuted_ns) == REFUTED_MAX and now_ns - self._refuted_ns[0] <= REFUTED_WITHIN_NS:
            self._muted_until_ns = now_ns + mute_ns
            self._refuted_ns.clear()
            self.mutes += 1

    # Pauses.

    def gap_ns(self, now_ns: int, deadline_ns: int | None) -> int:
        """By how much the loop that stands still is late, or 0: while it runs it is never so late."""
        if not self.is_timed or deadline_ns is None:
            return 0
        late_ns = now_ns - max(deadline_ns, self.ran_ns)
        return late_ns if late_ns > self._pause_ns else 0

    def paused(self, for_ns: int, accuse_after_ns: int) -> None:
        self.pauses += 1
        self.paused_ns += for_ns
        self.awaits_comparison = True
        self._accuse_after_ns = accuse_after_ns

    def compared(self) -> None:
        """The roster was compared with a peer's: accusing makes sense again."""
        self.awaits_comparison = False
        self._accuse_after_ns = 0

    # Do silent verdicts mean anything?

    def died_silently(self, now_ns: int, within_ns: int) -> None:
        self._silent_ns.append(now_ns)
        self._forget_silent(now_ns - within_ns)

    def holds_last_known(self, now_ns: int, members: int, within_ns: int) -> bool:
        """Self-preservation: a third of all gone silent at once hides nothing, and nor does isolation."""
        self._forget_silent(now_ns - within_ns)
        return self.is_isolated or len(self._silent_ns) * SILENT_SHARE > members

    def _forget_silent(self, before_ns: int) -> None:
        while self._silent_ns and self._silent_ns[0] < before_ns:
            self._silent_ns.popleft()
