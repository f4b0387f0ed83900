"""What an operator would do next about a member, in one or two sentences. It follows from how the member
stands, what brought it there, and whether the observer's own eyes can be trusted."""

from __future__ import annotations

from adsum.frozen import dataclass

OFTEN = 3  # refutations within an hour: more than a bad moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    name: str
    status: str  # alive, suspect, failed, left; forgotten when it is listed no more
    address: str
    cause: str = ""  # of the last change of status
    conflict: str = ""  # what to do about another of its name or id
    is_self: bool = False
    is_unmet: bool = False  # by this process of the observer; one before knew it
    is_unanswered: bool = False  # it was to be let in, and did not answer
    observer_is_isolated: bool = False
    holds_last_known: bool = False  # so many went silent at once that silence means little
    is_detour: bool = False
    refuted_lately: int = 0
    restarting_ms: int = 0
    time_left_ms: int = 0  # of a suspicion


def advice(it: Situation) -> str:
    if it.observer_is_isolated and not it.is_self:
        return (
            "This agent reaches less than half of the others, so look at this host's network first, and ask "
            f"another agent about {it.name}."
        )
    if it.conflict:
        return it.conflict
    if it.observer_is_isolated:
        return (
            "Look at this host's network: whether UDP and TCP pass between here and the others, in both "
            "directions. Until then answers go on as last known, marked stale."
        )
    if it.restarting_ms and it.status in ("alive", "suspect"):
        return f"Wait: it announced a restart and has {duration(it.restarting_ms)} left to come back."
    if it.is_unmet:
        return (
            "`adsum members` here has those whom it did meet. If that is nobody, its log says why it was not "
            "let in (`journalctl -u adsum`), and so does `adsum join` from here; else ask another agent "
            f"about {it.name}."
        )
    if it.is_unanswered:
        return (
            "If it is one of yours, see on its host whether the agent runs, whether advertise_addr is right, "
            "and whether UDP and TCP pass from here to that port. It is asked again when it joins."
        )
    match it.status:
        case "suspect":
            return (
                f"Wait: it has {duration(it.time_left_ms)} left to refute. If it does, look for what held it "
                "up: swapping, a throttled processor, a crowded network."
            )
        case "failed":
            return _failed(it)
        case "left":
            back = "To have it back, start its agent with retry_join, or `adsum join` from there."
            if it.cause == "forced":
                return f"Nothing: if its agent still runs, it comes back by itself. {back}"
            return f"Nothing. {back}"
        case "forgotten":
            return "Nothing is left to do here. Like any other it joins again when its agent starts."
    return _alive(it)


def duration(ms: int) -> str:
    """As people say it: the largest unit that makes it at least one."""
    for unit, unit_ms in (("day", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms >= 2 * unit_ms or (ms >= unit_ms and unit != "day"):
            count = ms // unit_ms
            return f"{count} days" if unit == "day" else f"{count} {unit}"
    return f"{ms / 1_000:.1f} s" if ms < 10_000 else f"{ms // 1_000} s"


def _failed(it: Situation) -> str:
    gone = f" If it is gone for good: `adsum force-leave {it.name}`."
    if it.cause == "refused":
        return (
            "Its host is up: see there why the agent ended (`journalctl -u adsum`), and start it. "
            f"{_BACK}{gone}"
        )
    if it.holds_last_known:
        return (
            "More than a third of the members went silent at once, so suspect the network between here and "
            f"there before the hosts. Until then answers go on as last known. {_BACK}"
        )
    return (
        f"See whether the host runs, and whether UDP and TCP pass between here and {it.address}, in both "
        f"directions. {_BACK}{gone}"
    )


def _alive(it: Situation) -> str:
    if it.refuted_lately >= OFTEN:
        return (
            f"It was accused and refuted {it.refuted_lately} times within the hour: look for what holds it "
            "up (swapping, a throttled processor, adsum_event_loop_lag_max_seconds), or for lost packets."
        )
    if it.is_detour:
        return (
            "Its last answer came through helpers or a stream, not directly: let UDP pass between here and "
            f"{it.address}, in both directions."
        )
    return "Nothing."


_BACK = "It is taken back as soon as it answers."
