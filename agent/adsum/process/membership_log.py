"""What the log says about the members: a line for each change an operator would want to find there.

Members, and whoever passes for one, cause these lines, so what comes in numbers is gathered
(`logs.news`). The journal has each change by itself; `adsum timeline` shows it.
"""

from __future__ import annotations

import logging

from adsum.gossip.effects import (
    ClockCompared,
    ConflictSeen,
    Effect,
    IsolationChanged,
    MemberChanged,
    Note,
    Noted,
    Paused,
)
from adsum.gossip.evidence import ChangeCause
from adsum.gossip.order import MemberStatus
from adsum.journal import clash
from adsum.journal.accusation import in_short
from adsum.journal.entry import NameOf, grounds_of
from adsum.logs.clock_words import off_by
from adsum.logs.news import LogNews, NewsTopic
from adsum.now import SECOND

log = logging.getLogger("agent.members")

# What one member did, as a sentence says it, and what many did.
NEWS = {
    ChangeCause.JOINED: ("joined", "joined"),
    ChangeCause.RESTARTED: ("was restarted", "were restarted"),
    ChangeCause.LEFT: ("left", "left"),
    ChangeCause.FORCED: ("was made to leave", "were made to leave"),
    ChangeCause.REPLACED: (
        "was replaced by another at its address or of its name",
        "were replaced by others",
    ),
    ChangeCause.REBORN: (
        "lost its data folder and is taken in under a new node id",
        "lost their data folders",
    ),
    ChangeCause.REAPED: ("is forgotten", "are forgotten"),
    ChangeCause.CROWDED_OUT: ("is forgotten to make room", "are forgotten to make room"),
}
TOPICS = {cause: NewsTopic(cause.value, many) for cause, (_, many) in NEWS.items()}
FAILED = NewsTopic("failed", "failed")
SUSPECTED = NewsTopic("suspected", "are suspected")
ALIVE = NewsTopic("alive", "are alive")
CONFLICT = NewsTopic("conflict", at_once=1, gather_s=60.0)  # a datagram each; the last says as much as all
CUT_OFF = "this agent reaches less than half of the members: it may be the one cut off"
CONNECTED = "this agent reaches most members again"
PAUSE = NewsTopic("pause", at_once=4, gather_s=60.0)  # a processor limit brings one every few seconds
STOOD_STILL = (
    "this process stood still for up to {:.1f} s: stopped, its host suspended, or without processor time. "
    "What it says about others is marked stale until it has compared with one of them, and they may have "
    "called it failed meanwhile. If nobody stopped it, look at the load of this host, at processor limits "
    "(cpu.max) and at what suspends it"
)
UNANSWERED = NewsTopic("unanswered", at_once=1, gather_s=60.0)
NOT_THERE = (
    "{} wants to join, says one that is no member, and is not let in: it does not answer at {}:{}. If it is "
    "one of yours, see there whether advertise_addr is right, and whether UDP and TCP reach that port"
)
ISOLATION = NewsTopic("isolation", at_once=4, gather_s=60.0)  # the last says how things are


CLOCK = NewsTopic("clock", at_once=4, gather_s=60.0)
CLOCK_AGREES = "this host's clock agrees with those of other agents again"


class MembershipLog:
    def __init__(self, name_of: NameOf) -> None:
        self._is_clock_off = False
        self._name_of = name_of
        self._news = LogNews(log)

    async def run(self) -> None:
        await self._news.run()

    def log(self, effect: Effect) -> None:
        match effect:
            case MemberChanged(member):
                topic, what = self._topic(effect)
                if topic is not None:
                    level = logging.WARNING if topic is FAILED else logging.INFO
                    host, port = member.address
                    self._news.log(topic, level, f"{member.name} at {host}:{port} {what}", member.name)
            case ConflictSeen():
                entry = clash.standing(effect, self._name_of)
                sentence = f"{clash.sentence(entry)} {clash.instruction(entry)}"
                self._news.log(CONFLICT, logging.ERROR, sentence)
            case Noted(Note.UNANSWERED, newcomer):
                sentence = NOT_THERE.format(newcomer.name, *newcomer.address)
                self._news.log(UNANSWERED, logging.WARNING, sentence)
            case Paused(for_ns):
                self._news.log(PAUSE, logging.WARNING, STOOD_STILL.format(for_ns / SECOND))
            case ClockCompared(ahead_ms, others):
                was_off, sentence = self._is_clock_off, off_by(ahead_ms, others)
                self._is_clock_off = bool(sentence)
                if sentence:
                    self._news.log(CLOCK, logging.WARNING, sentence)
                elif was_off:
                    self._news.log(CLOCK, logging.INFO, CLOCK_AGREES)
            case IsolationChanged(True):
                self._news.log(ISOLATION, logging.WARNING, CUT_OFF)
            case IsolationChanged(False):
                self._news.log(ISOLATION, logging.INFO, CONNECTED)

    def _topic(self, change: MemberChanged) -> tuple[NewsTopic | None, str]:
        """And what the member did; no topic where it is nothing to look for."""
        after = change.after.status if change.after is not None else None
        was_alive = change.before is not None and change.before.status is MemberStatus.ALIVE
        evidence = change.evidence
        if after is MemberStatus.FAILED:
            return FAILED, f"failed: {in_short(grounds_of(evidence, self._name_of))}"
        if after is MemberStatus.SUSPECT:
            return SUSPECTED, f"is suspected: {in_short(grounds_of(evidence, self._name_of))}"
        if evidence.cause in NEWS:
            return TOPICS[evidence.cause], NEWS[evidence.cause][0]
        return (ALIVE, "is alive") if after is MemberStatus.ALIVE and not was_alive else (None, "")
