"""`adsum simulate`: the shipped gossip core on a simulated network, so that settings are planned before they
are needed. No agent is asked and nothing is sent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from adsum.agent.cli.command import Call, Command, Flag, UsageError
from adsum.agent.cli.table import OUTPUT, dump, is_table

if TYPE_CHECKING:
    from adsum.testing.simulate import Figures, Plan

# By name, since help and completion must not load the simulator for them.
SCENARIOS = ("quiet", "crash", "host-loss", "pause", "partition", "restart", "slow-members")
NODES_MIN, NODES_MAX = 3, 10_000
# One member is lost every 5 s and is back after 60 s: 13 are down at once, and the others should be more.
NODES_MIN_OF = {"crash": 30, "host-loss": 30}
LOSS_MAX = 0.9
MINUTES_MAX = 24 * 60
SEED_MAX = 2**63


def run(call: Call) -> int:
    plan = _plan(call)
    from adsum.testing.simulate import simulate, told

    began_s = time.monotonic()
    figures = simulate(plan)
    took_s = time.monotonic() - began_s
    if is_table(call):
        print("\n".join([*told(figures), _speed(figures, took_s)]))
    else:
        dump(call, _row(figures, took_s))
    return 0


def _plan(call: Call) -> Plan:
    scenario = call.text("scenario", "quiet")
    nodes = int(_number(call, "nodes", "1000", NODES_MIN_OF.get(scenario, NODES_MIN), NODES_MAX, whole=True))
    loss = _number(call, "loss", "0.05", 0, LOSS_MAX)
    minutes = _number(call, "minutes", "10", 0.1, MINUTES_MAX)
    seed = int(_number(call, "seed", "1", 0, SEED_MAX, whole=True))

    from adsum.now import MINUTE
    from adsum.testing.simulate import Plan, Scenario

    return Plan(nodes, Scenario(scenario), loss, int(minutes * MINUTE), seed)


def _number(
    call: Call, flag: str, default: str, least: float, most: float, *, whole: bool = False
) -> float | int:
    text = call.text(flag, default)
    kind = "a whole number" if whole else "a number"
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        raise UsageError(f'-{flag} is {kind} from {least:g} to {most:g}, not "{text}"') from None
    if not least <= value <= most:  # which nan is not either
        where = (
            f" with -scenario={call.text('scenario')}"
            if flag == "nodes" and "scenario" in call.values
            else ""
        )
        raise UsageError(f"-{flag} is {kind} from {least:g} to {most:g}{where}, not {text}")
    return value


def _speed(figures: Figures, took_s: float) -> str:
    faster = figures.plan.duration_ns / 1e9 / took_s
    return f"simulated in {took_s:.1f} s: {faster:.1f} times as fast as time, {figures.events} events"


def _row(figures: Figures, took_s: float) -> dict[str, Any]:
    from dataclasses import asdict

    row, plan = asdict(figures), figures.plan
    row["plan"] = {
        "nodes": plan.nodes,
        "scenario": plan.scenario.value,
        "loss": plan.loss,
        "minutes": plan.duration_ns / 60e9,
        "seed": plan.seed,
    }
    return {**row, "took_s": round(took_s, 3)}


COMMAND = Command(
    run,
    flags=(
        Flag("nodes", "Members, 1000 if not given.", "NUMBER"),
        Flag("loss", "Share of datagrams lost, 0.05 if not given.", "SHARE"),
        Flag("minutes", "Simulated time, 10 if not given.", "MINUTES"),
        Flag("scenario", "What goes wrong; nothing (quiet) if not given.", "NAME", choices=SCENARIOS),
        Flag("seed", "Where chance begins, 1 if not given; equal seeds give equal figures.", "NUMBER"),
        OUTPUT,
    ),
    about="It asks no agent and sends nothing. A thousand members take minutes; Ctrl-C ends it.",
)
