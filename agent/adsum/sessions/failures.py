"""Nodes that failed, by this leader's own observation, and whether another server says the same.

A verdict that lasts as long as the grace is shown to another voter, one after the other, until one agrees;
the only voter agrees with itself. One that does not answer is left alone for a while, or each node that
failed would wait for it anew. Nothing of that counts while this server is cut off, or stands still for as
long as others need to call it failed: then the observation begins anew. A shorter pause is not counted, and
after it this server has to be awake for two seconds and asks again; else one that stutters, as on a host that
is short of processor time, would never end anything. What was agreed on is asked again after a while, for as
long as a session hangs on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from adsum.now import SECOND
from adsum.sessions.sees import HostSeen, HostVerdict, NodeKey, SeesHosts
from adsum.sessions.settings import (
    AWAKE_NS,
    FAILURE_LOOK_NS,
    LONG_PAUSE_NS,
    SILENT_VOTER_NS,
    VERDICTS_ASKED_MAX,
)


class _Failing:
    __slots__ = (
        *("agreed", "agreed_ns", "ask_ns", "asked_ns", "generation", "is_asking", "since_ns", "turn"),
        "voter",
    )

    def __init__(self, generation: int, now_ns: int) -> None:
        self.generation = generation
        self.since_ns = now_ns
        self.ask_ns = 0  # not before
        self.asked_ns = 0
        self.turn = 0  # whose it is to be asked
        self.voter = ""
        self.is_asking = False
        self.agreed = ""  # by whom, in words
        self.agreed_ns = 0


class NodeFailures:
    def __init__(
        self,
        sees: SeesHosts,
        me: str,
        voters: Callable[[], Sequence[str]],
        name_of: Callable[[str], str],
        grace_ns: int,
    ) -> None:
        self._sees = sees
        self._me = me
        self._voters = voters
        self._name_of = name_of
        self._grace_ns = grace_ns
        self._failing: dict[NodeKey, _Failing] = {}
        self._asking = 0
        self._awake_ns = -AWAKE_NS  # since when there was no pause
        self._silent_ns: dict[str, int] = {}  # voters that did not answer when they were asked last, and when

    def __len__(self) -> int:
        return len(self._failing)

    def look_at(self, who: NodeKey, now_ns: int) -> None:
        host, known = self._sees.host(who), self._failing.get(who)
        if host.verdict is not HostVerdict.FAILED:
            self.forget(who)
        elif known is None or known.generation != host.generation:
            self.forget(who)
            self._failing[who] = _Failing(host.generation, now_ns)

    def forget(self, who: NodeKey) -> None:
        known = self._failing.pop(who, None)
        self._asking -= known is not None and known.is_asking

    def paused(self, now_ns: int, for_ns: int) -> None:
        """`now_ns` does not count it."""
        self._awake_ns = now_ns
        for known in self._failing.values():
            known.agreed = ""
        if for_ns >= LONG_PAUSE_NS:
            self._begin_anew(now_ns)

    def _begin_anew(self, now_ns: int) -> None:
        for known in self._failing.values():
            known.since_ns, known.agreed = now_ns, ""

    def agreed(self, who: NodeKey) -> str:
        known = self._failing.get(who)
        return known.agreed if known is not None else ""

    def to_ask(self, now_ns: int) -> Iterator[tuple[NodeKey, str]]:
        """And whom; an empty name where nobody has to be asked."""
        if not self._failing:
            return
        if self._sees.is_isolated:
            self._begin_anew(now_ns)
            return
        if now_ns - self._awake_ns < AWAKE_NS:
            return
        voters = self._voters()
        for who, known in list(self._failing.items()):
            if known.agreed and now_ns - known.agreed_ns >= self._grace_ns:
                known.agreed = ""
            is_ripe = now_ns >= max(known.since_ns + self._grace_ns, known.ask_ns)
            if known.agreed or known.is_asking or not is_ripe:
                continue
            others = self._to_choose_from(voters, who, now_ns)
            if list(voters) == [self._me]:
                self._agree(known, now_ns, f"seen by {self._held_by_me()}, the only voter")
                yield who, ""
            elif others and self._asking < VERDICTS_ASKED_MAX:
                known.voter, known.is_asking = others[known.turn % len(others)], True
                known.turn += 1
                known.asked_ns = now_ns
                self._asking += 1
                yield who, known.voter

    def answered(self, who: NodeKey, voter: str, seen: HostSeen | None, now_ns: int) -> bool:
        """Whether it is settled with that."""
        known = self._failing.get(who)
        if known is None or not known.is_asking or known.voter != voter:
            return False
        known.is_asking = False
        self._asking -= 1
        self._silent_ns.pop(voter, None)
        if seen is None:
            self._silent_ns[voter] = now_ns
        is_held = now_ns - known.since_ns >= self._grace_ns and known.asked_ns > self._awake_ns
        is_held = is_held and not self._sees.is_isolated
        is_same = seen is not None and seen.verdict is HostVerdict.FAILED
        if seen is None or not is_same or seen.generation < known.generation or not is_held:
            known.ask_ns = now_ns + FAILURE_LOOK_NS
            return False
        self._agree(known, now_ns, f"seen by {self._held_by_me()}, and by {self._name_of(voter)}")
        return True

    def earliest(self, now_ns: int) -> int | None:
        """When to look again."""
        return now_ns + FAILURE_LOOK_NS if self._failing else None

    def _to_choose_from(self, voters: Sequence[str], who: NodeKey, now_ns: int) -> list[str]:
        for each, silent_ns in list(self._silent_ns.items()):
            if now_ns - silent_ns >= SILENT_VOTER_NS:
                del self._silent_ns[each]
        others = [each for each in voters if each != self._me and not _is(each, who)]
        return [each for each in others if each not in self._silent_ns] or others

    def _agree(self, known: _Failing, now_ns: int, sentence: str) -> None:
        known.agreed, known.agreed_ns = sentence, now_ns

    def _held_by_me(self) -> str:
        return f"{self._name_of(self._me)} for {self._grace_ns / SECOND:g} s"


def _is(voter: str, who: NodeKey) -> bool:
    return voter.replace("-", "") == who[0].hex()
