"""Time that stands still until somebody moves it."""

from __future__ import annotations

from adsum.now import MILLISECOND, Now

# Any date serves; a fixed one keeps runs equal. This is the first day of the project.
FIRST_WALL_MS = 1_795_000_000_000


class SimulatedClock:
    def __init__(self, wall_ms: int = FIRST_WALL_MS) -> None:
        self._monotonic_ns = 0
        self._wall_ms_at_zero = wall_ms

    def now(self) -> Now:
        return Now(self._monotonic_ns, self._wall_ms_at_zero + self._monotonic_ns // MILLISECOND)

    def advance_to(self, monotonic_ns: int) -> None:
        assert monotonic_ns >= self._monotonic_ns, "monotonic time does not go back"
        self._monotonic_ns = monotonic_ns

    def set_wall(self, wall_ms: int) -> None:
        """Somebody sets the date, forwards or back; durations do not notice."""
        self._wall_ms_at_zero = wall_ms - self._monotonic_ns // MILLISECOND
