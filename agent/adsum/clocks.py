"""What date it is, as most members see it, and which generations are too far ahead of it to be believed.

Each exchange of rosters that this agent opens is answered with the other's date, and a member that opens one
says its own. The median of the last that were heard, with this host's own among them once there are two
others, is what most believe. Dates are kept as what they were when our monotonic clock stood at 0, so
that a step of our own date shows at once. An exchange takes seconds at most, which is as exact as this has to
be.

Generations begin as dates. One that is days ahead comes from a clock that is, or was made up: nobody whose
clock is right could go beyond it. But where most members have such ones, their clocks were wrong when they
started, all of them, and were put right since; who is alone with a right date has to live with that."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from adsum.newest import keep_newest
from adsum.now import HOUR, MILLISECOND, SECOND, Now

CLOCKS_HEARD_MAX = 31  # an odd one in three takes no majority of so many
CLOCKS_OF_HOST_MAX = 4
GENERATION_AHEAD_MS_MAX = 24 * HOUR // MILLISECOND
# From a known generation, however far ahead that is: each start goes on by one, if not by the date.
GENERATION_STEP_MAX = 60_000
MOST_LOOKED_NS = 5 * SECOND  # looking at a roster of 16,384 takes milliseconds, and anybody can ask for it


class Clocks:
    def __init__(self, build_wall_ms: int = 0, generations: Callable[[], Iterable[int]] = lambda: ()) -> None:
        """`generations`: of the members that are present."""
        self._at_nought_ms: dict[Hashable, int] = {}  # by whose clock it is
        self._hosts: dict[Hashable, str] = {}  # of the same
        self._build_wall_ms = build_wall_ms
        self._generations = generations
        self._most = 0
        self._looked_ns = -MOST_LOOKED_NS

    @property
    def others(self) -> int:
        """How many ours was compared with."""
        return len(self._at_nought_ms)

    def hear(self, now: Now, whose: Hashable, wall_ms: int, host: str = "") -> None:
        """Of one host a few count: it has one clock, unless others stand behind its address."""
        self._at_nought_ms.pop(whose, None)
        self._hosts[whose] = host
        of_host = [each for each in self._at_nought_ms if host and self._hosts.get(each) == host]
        if len(of_host) >= CLOCKS_OF_HOST_MAX:
            del self._at_nought_ms[of_host[0]]
        at_nought_ms = wall_ms - now.monotonic_ns // MILLISECOND
        keep_newest(self._at_nought_ms, whose, at_nought_ms, CLOCKS_HEARD_MAX)
        self._hosts = {each: self._hosts[each] for each in self._at_nought_ms}

    def ahead_ms(self, now: Now) -> int:
        """How far our date is ahead of most members'; negative when it is behind, 0 while we heard
        none."""
        heard = list(self._at_nought_ms.values())
        if not heard:
            return 0
        own = now.wall_ms - now.monotonic_ns // MILLISECOND
        dates = sorted([*heard, own] if len(heard) > 1 else heard)
        return own - dates[len(dates) // 2]

    def is_ahead(self, now: Now, generation: int) -> bool:
        """Too far for a right clock. A host that lost its date, as a date before the release of this software
        shows, judges nobody."""
        date_ms = self.date_ms(now)
        if generation - date_ms <= GENERATION_AHEAD_MS_MAX or date_ms <= self._build_wall_ms:
            return False
        if now.monotonic_ns - self._looked_ns >= MOST_LOOKED_NS:
            self.look_at(now, self._generations())
        return generation - self._most > GENERATION_AHEAD_MS_MAX

    def look_at(self, now: Now, generations: Iterable[int]) -> None:
        """Those of most members; or of most that a joiner hears of."""
        self._looked_ns = now.monotonic_ns
        ordered = sorted(generations)
        if ordered:
            self._most = ordered[(len(ordered) - 1) // 2]

    def date_ms(self, now: Now) -> int:
        """As most members have it. Of two that disagree nobody knows who is right, and
        the later one keeps nobody out."""
        ahead_ms = self.ahead_ms(now)
        return now.wall_ms - (ahead_ms if len(self._at_nought_ms) > 1 else min(0, ahead_ms))
