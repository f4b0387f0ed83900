"""What the log says about the roll: a line for each change an operator would want to find there."""

from __future__ import annotations

import logging
from collections.abc import Callable

from adsum.gossip.effects import ConflictSeen, Effect, IsolationChanged, MemberChanged
from adsum.gossip.evidence import Cause, Evidence
from adsum.gossip.order import Status
from adsum.observe import clash
from adsum.observe.entry import entry_of_conflict

log = logging.getLogger("agent.roll")

NameOf = Callable[[bytes], str]
NEWS = {
    Cause.JOINED: "joined",
    Cause.RESTARTED: "came back with a new life",
    Cause.LEFT: "left",
    Cause.FORCED: "was made to leave",
    Cause.REPLACED: "was replaced by another of its name",
    Cause.REAPED: "is forgotten",
}


def tell(effect: Effect, name_of: NameOf) -> None:
    match effect:
        case MemberChanged():
            _tell_change(effect, name_of)
        case ConflictSeen():
            entry = entry_of_conflict(0, effect, name_of)
            log.error("%s %s", clash.sentence(entry), clash.instruction(entry))
        case IsolationChanged(True):
            log.warning("this agent reaches less than half of the members: it may be the one cut off")
        case IsolationChanged(False):
            log.info("this agent reaches most members again")


def _tell_change(change: MemberChanged, name_of: NameOf) -> None:
    name, address = change.member.name, change.member.address
    after = change.after.status if change.after is not None else None
    evidence = change.evidence
    if after is Status.FAILED:
        log.warning("%s at %s:%d failed: %s", name, *address, grounds(evidence, name_of))
    elif after is Status.SUSPECT:
        log.info("%s at %s:%d is suspected: %s", name, *address, grounds(evidence, name_of))
    elif evidence.cause in NEWS:
        log.info("%s at %s:%d %s", name, *address, NEWS[evidence.cause])
    elif after is Status.ALIVE and (change.before is None or change.before.status is not Status.ALIVE):
        log.info("%s at %s:%d is alive", name, *address)


def grounds(evidence: Evidence, name_of: NameOf) -> str:
    legs = ", ".join(leg.name.lower() for leg in evidence.legs if leg.name) or "none"
    who = ", ".join(map(name_of, evidence.accusers)) or "nobody"
    refused = f"; refused to {', '.join(map(name_of, evidence.refusers))}" if evidence.refusers else ""
    return f"accused by {who}; legs that failed: {legs}; phi {evidence.phi:.1f}{refused}"
