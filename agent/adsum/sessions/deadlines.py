"""When sessions end that nobody renews, in the leader's memory only.

Time is counted while this process runs: over a pause nobody can renew anything, so it moves no deadline.
"""

from __future__ import annotations

from adsum.now import MILLISECOND
from adsum.session import Session
from adsum.sessions.settings import LATE_FACTOR, LEFT_NS_MIN, LONG_TTL_MS
from adsum.timers import Timers


class Deadlines:
    def __init__(self, long_ttl_ms: int = LONG_TTL_MS) -> None:
        self.due: dict[str, None] = {}  # whose time has come, in that order
        self.long: dict[str, None] = {}  # whose remaining time is noted in the log
        self._long_ttl_ms = long_ttl_ms
        self._due_ns: dict[str, int] = {}
        self._timers: Timers[str] = Timers()

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._due_ns

    def __len__(self) -> int:
        return len(self._due_ns)

    def take_over(self, session: Session, now_ns: int) -> None:
        """One that another leader kept, or a new one; unless it was renewed here already."""
        if not session.ttl_ms or session.id in self._due_ns:
            return
        if session.remaining_ms is None:
            self.renew(session, now_ns)
        else:
            left_ns = max(session.remaining_ms * MILLISECOND, LEFT_NS_MIN)
            self._set(session, now_ns + left_ns)

    def renew(self, session: Session, now_ns: int) -> None:
        if session.ttl_ms:
            self._set(session, now_ns + LATE_FACTOR * session.ttl_ms * MILLISECOND)

    def postpone(self, session_id: str, until_ns: int) -> None:
        """It was due, and the log did not take its end."""
        self._due_ns[session_id] = until_ns
        self._timers.set(session_id, until_ns)

    def forget(self, session_id: str) -> None:
        self._due_ns.pop(session_id, None)
        self.long.pop(session_id, None)
        self.due.pop(session_id, None)
        self._timers.cancel(session_id)

    def pass_to(self, now_ns: int, at_most: int) -> None:
        for _place, session_id in zip(range(at_most), self._timers.take_due(now_ns), strict=False):
            self.due[session_id] = None

    def left_ms(self, session_id: str, now_ns: int) -> int:
        return max(0, self._due_ns[session_id] - now_ns) // MILLISECOND

    def earliest(self) -> int | None:
        """Of those that are not due yet."""
        return self._timers.earliest()

    def _set(self, session: Session, due_ns: int) -> None:
        self.due.pop(session.id, None)
        self._due_ns[session.id] = due_ns
        self._timers.set(session.id, due_ns)
        if session.ttl_ms > self._long_ttl_ms:
            self.long[session.id] = None
