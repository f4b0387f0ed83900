"""Figures of a simulation for people: one fact a line, and no line for what did not happen."""

from __future__ import annotations

from collections.abc import Iterator

from adsum.now import MINUTE
from adsum.testing.simulate_figures import Figures, Plan, Scenario, Spread

# The scenarios that end in a moment from which on everybody should see the same.
VIEW_FROM = {
    Scenario.PARTITION: "after it healed",
    Scenario.COLD_START: "after the start",
    Scenario.ALL_RESTART: "after they were started again",
}
# Where members are started again within the minute, that is no flapping.
THEY_RETURN = (Scenario.CRASH, Scenario.HOST_LOSS, Scenario.RESTART, Scenario.ALL_RESTART)


def told(figures: Figures) -> list[str]:
    return [
        _plan(figures),
        _line("an update has reached 99 of 100 members after", figures.update_99),
        _line("an update has reached all members after", figures.update_all),
        *_late(figures),
        *_verdicts(figures),
        *_false(figures),
        *_view(figures),
        *_cost(figures),
    ]


def told_short(figures: Figures) -> str:
    """One of several seeds."""
    facts = [f"false verdicts {figures.false_verdicts}"]
    if figures.verdict_first.count:
        spread = figures.verdict_first
        facts.insert(0, f"first verdict mean {spread.mean_s:.2f} s, p95 {spread.p95_s:.2f} s")
    if figures.plan.scenario in VIEW_FROM:
        after_s = figures.one_view_after_s
        facts.insert(0, f"one view after {after_s:.1f} s" if after_s is not None else "no view in common")
    return f"seed {figures.plan.seed}: {'; '.join(facts)}"


def _plan(figures: Figures) -> str:
    plan = figures.plan
    minutes = f"{plan.duration_ns / MINUTE:g} minutes of {plan.scenario.value}"
    return f"{plan.nodes} members, {plan.loss:.0%} loss, {minutes}, {_seeds(plan, figures.seeds)}"


def _seeds(plan: Plan, seeds: int) -> str:
    return f"seed {plan.seed}" if seeds == 1 else f"{seeds} seeds from {plan.seed}"


def _late(figures: Figures) -> Iterator[str]:
    if figures.updates_late:
        yield f"updates that had not reached all by the end: {figures.updates_late} of {figures.updates}"


def _verdicts(figures: Figures) -> Iterator[str]:
    if not figures.losses:
        return
    yield _line("the first verdict on a lost member came after", figures.verdict_first)
    yield _line("half of the members had it after", figures.verdict_half)
    yield _line("99 of 100 members had it after", figures.verdict_99)
    yield _line("all members had it after", figures.verdict_all)
    yield f"lost members not found out: {figures.undetected}"


def _false(figures: Figures) -> Iterator[str]:
    yield f"false verdicts: {figures.false_verdicts}"
    if figures.false_verdicts:
        by = f"{figures.false_by_healthy} by healthy accusers, {figures.false_by_slow} by those in trouble"
        yield f"of them {by}"
    if figures.flaps and figures.plan.scenario not in THEY_RETURN:
        yield f"seen to fail and return within a minute: {figures.flaps} times"


def _view(figures: Figures) -> Iterator[str]:
    since, after_s = VIEW_FROM.get(figures.plan.scenario), figures.one_view_after_s
    if since is not None:
        yield f"one view {after_s:.1f} s {since}" if after_s is not None else "no view in common yet"


def _cost(figures: Figures) -> Iterator[str]:
    messages, data = figures.messages_per_s, figures.bytes_per_s
    yield f"each member sent {messages.mean:.1f} messages, {data.mean:.0f} bytes a second"
    yield f"one in a hundred sent more than {messages.p99:.1f} messages, {data.p99:.0f} bytes a second"
    if figures.queue_drops:
        yield f"news dropped because a queue was full: {figures.queue_drops}"
    if figures.socket_drops:
        yield f"datagrams dropped by full receive buffers: {figures.socket_drops}"


def _line(what: str, spread: Spread) -> str:
    if not spread.count:
        return f"{what}: none seen"
    return f"{what}: mean {spread.mean_s:.2f} s, p95 {spread.p95_s:.2f} s, at most {spread.max_s:.2f} s"
