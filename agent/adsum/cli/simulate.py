"""`adsum simulate`: the shipped gossip core on a simulated network, so that settings are planned before they
are needed. No agent is asked and nothing is sent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from adsum.cli.command import Command, CommandFlag, FlagGroup, ParsedCommand, UsageError
from adsum.cli.table import OUTPUT, dump, is_table

if TYPE_CHECKING:
    from adsum.gossip.settings import GossipSettings
    from adsum.testing.simulate_figures import Figures, Measured, Plan

# By name, since help and completion must not load the simulator for them.
SCENARIOS = (
    *("quiet", "crash", "host-loss", "pause", "partition", "restart", "slow-members"),
    *("cold-start", "all-restart", "one-way", "flip-flop"),
)
MODES = ("classic", "adaptive")
NODES_MIN, NODES_MAX = 3, 10_000
LOSS_MAX = 0.9
MINUTES_MAX = 24 * 60
SEED_MAX = 2**63
SEEDS_MAX = 100  # in one command
LATENCY_S_MAX = 10

DURATIONS = ("refused-grace", "probe-interval", "probe-timeout", "gossip-interval")
COUNTS = ("gossip-nodes", "push-nodes", "suspicion-mult", "retransmit-mult")


def run(call: ParsedCommand) -> int:
    plans = _plans(call)
    from adsum.testing.simulate import measure
    from adsum.testing.simulate_figures import figures_of
    from adsum.testing.simulate_told import told, told_short

    began_s = time.monotonic()
    runs: list[Measured] = []
    for plan in plans:
        runs.append(measure(plan))
        if is_table(call) and len(plans) > 1:
            print(told_short(figures_of(runs[-1:])), flush=True)
    took_s = time.monotonic() - began_s
    figures = figures_of(runs)
    if is_table(call):
        faster = figures.seeds * figures.plan.duration_ns / 1e9 / took_s
        pace = f"simulated in {took_s:.1f} s: {faster:.1f} times as fast as time, {figures.events} events"
        print("\n".join([*told(figures), pace]))
    else:
        each = {"runs": [_row(figures_of([one])) for one in runs]} if len(runs) > 1 else {}
        dump(call, {**_row(figures), **each, "took_s": round(took_s, 3)})
    return 0


# What is asked for.


def _plans(call: ParsedCommand) -> list[Plan]:
    scenario = call.text("scenario", "quiet")
    nodes = int(_number(call, "nodes", "1000", NODES_MIN, NODES_MAX, whole=True))
    loss = _number(call, "loss", "0.05", 0, LOSS_MAX)
    minutes = _number(call, "minutes", "10", 0.1, MINUTES_MAX)
    latency_ns, jitter_ns = _delay_ns(call, "latency"), _delay_ns(call, "jitter")
    seeds, settings = _seeds(call), _settings(call)

    from adsum.now import MINUTE
    from adsum.testing.simulate_figures import Plan, Scenario

    duration_ns = int(minutes * MINUTE)
    return [
        Plan(nodes, Scenario(scenario), loss, duration_ns, seed, settings, latency_ns, jitter_ns)
        for seed in seeds
    ]


def _number(
    call: ParsedCommand, flag: str, default: str, least: float, most: float, *, whole: bool = False
) -> float | int:
    text = call.text(flag, default)
    kind = "a whole number" if whole else "a number"
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        raise UsageError(f'-{flag} is {kind} from {least:g} to {most:g}, not "{text}"') from None
    if not least <= value <= most:  # which nan is not either
        raise UsageError(f"-{flag} is {kind} from {least:g} to {most:g}, not {text}")
    return value


def _seeds(call: ParsedCommand) -> range:
    if "seeds" not in call.values:
        seed = int(_number(call, "seed", "1", 0, SEED_MAX, whole=True))
        return range(seed, seed + 1)
    if "seed" in call.values:
        raise UsageError("-seed is for one run and -seeds for several; give one of them")
    text = call.text("seeds")
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        raise UsageError(f'-seeds are the first and the last, 1-5, not "{text}"')
    seeds = range(int(first), int(last) + 1)
    if not 1 <= int(last) - int(first) + 1 <= SEEDS_MAX or int(last) > SEED_MAX:
        raise UsageError(f"-seeds are at least one and at most {SEEDS_MAX}, not {text}")
    return seeds


def _delay_ns(call: ParsedCommand, flag: str) -> int:
    delay_ns = _duration_ns(call, flag, "500us")
    if delay_ns > LATENCY_S_MAX * 10**9:
        raise UsageError(f"-{flag} is at most {LATENCY_S_MAX}s, not {call.text(flag)}")
    return delay_ns


def _duration_ns(call: ParsedCommand, flag: str, default: str) -> int:
    from adsum.durations import BadDuration, parse_duration

    text = call.text(flag, default)
    try:
        duration_ns = parse_duration(text)
    except BadDuration:
        duration_ns = -1
    if duration_ns < 0:
        raise UsageError(f'-{flag} is a duration as 500us, 200ms or 1.5s, not "{text}"')
    return duration_ns


def _settings(call: ParsedCommand) -> GossipSettings:
    """As an agent would take them: the same values are refused with the same reasons."""
    from adsum.config.config import Gossip
    from adsum.config.rules import gossip_mistakes
    from adsum.process.gossip_settings import gossip_settings

    given: dict[str, Any] = {"mode": call.text("mode", MODES[0])}
    for flag in DURATIONS:
        if flag in call.values:
            given[f"{flag.replace('-', '_')}_ns"] = _duration_ns(call, flag, "")
    for flag in COUNTS:
        if flag in call.values:
            text = call.text(flag)
            if not text.removeprefix("-").isdecimal():
                raise UsageError(f'-{flag} is a whole number, not "{text}"')
            given[flag.replace("-", "_")] = int(text)
    gossip = Gossip(**given)
    for key, why in gossip_mistakes(gossip):
        raise UsageError(f"-{key.rpartition('.')[2].replace('_', '-')} {why}")
    return gossip_settings(gossip)


# What is told.


def _row(figures: Figures) -> dict[str, Any]:
    """Keys stay: new ones may come."""
    from dataclasses import asdict

    from adsum.durations import format_duration

    plan = figures.plan
    settings = plan.settings
    shown = {
        "nodes": plan.nodes,
        "scenario": plan.scenario.value,
        "loss": plan.loss,
        "minutes": plan.duration_ns / 60e9,
        "seed": plan.seed,
        "latency": format_duration(plan.latency_ns),
        "jitter": format_duration(plan.jitter_ns),
        "mode": settings.mode.value,
        "refused_grace": format_duration(settings.refused_grace_ns),
        "probe_interval": format_duration(settings.probe_interval_ns),
        "probe_timeout": format_duration(settings.probe_timeout_ns),
        "gossip_interval": format_duration(settings.gossip_interval_ns),
        "gossip_nodes": settings.gossip_nodes,
        "push_nodes": settings.push_nodes,
        "suspicion_mult": settings.suspicion_mult,
        "retransmit_mult": settings.retransmit_mult,
    }
    return {**asdict(figures), "plan": shown}


ABOUT = """\
It asks no agent and sends nothing; equal seeds give equal figures. A thousand members take minutes, and
Ctrl-C ends it.

To plan with it, take your number of members, your -latency, and the -loss of a bad hour:

    host-loss      how long clients may be sent to a host that is gone
    crash          how long to a process that has ended on a host that is up
    pause, slow-members, one-way, flip-flop
                   what stalling hosts and bad lines cost in false verdicts; if it is more than a few, look
                   for the cause
    restart        whether announced restarts stay within their time
    partition      how soon all are of one mind after a cut of a minute; give it -minutes=3
    cold-start, all-restart
                   how soon when all start at once, for the first time or after all were killed
    quiet          how fast news travels, and what each member sends: multiply by your members for the network

Then change one setting at a time, by its name in the configuration, and compare over -seeds=1-5. What finds
lost hosts sooner, a lower -suspicion-mult say, forgives shorter pauses: look at host-loss and at pause.
-mode=adaptive is classic until an agent has seen a thousand refutations, which short runs do not bring."""

COMMAND = Command(
    run,
    flags=(
        CommandFlag("nodes", "Members, 1000 if not given.", "NUMBER"),
        CommandFlag("minutes", "Simulated time, 10 if not given.", "MINUTES"),
        CommandFlag("scenario", "What goes wrong; nothing (quiet) if not given.", "NAME", choices=SCENARIOS),
        CommandFlag("seed", "Where chance begins, 1 if not given; equal seeds give equal figures.", "NUMBER"),
        CommandFlag(
            "seeds", "Several runs, one after the other, and what they have in common.", "FIRST-LAST"
        ),
        OUTPUT,
    ),
    groups=(
        FlagGroup(
            "The network",
            (
                CommandFlag("loss", "Share of datagrams lost, 0.05 if not given.", "SHARE"),
                CommandFlag("latency", "One way, at least; 500us if not given.", "DURATION"),
                CommandFlag("jitter", "Up to so much more, evenly; 500us if not given.", "DURATION"),
            ),
        ),
        FlagGroup(
            "Settings of the agents, as `gossip` and `gossip_lan` have them",
            (
                CommandFlag(
                    "mode", "When silence is a verdict, classic if not given.", "MODE", choices=MODES
                ),
                CommandFlag("refused-grace", "From a refusal to the verdict, 1s if not given.", "DURATION"),
                CommandFlag("probe-interval", "One member is probed each, 1s if not given.", "DURATION"),
                CommandFlag(
                    "probe-timeout", "Others are asked to probe after, 500ms if not given.", "DURATION"
                ),
                CommandFlag("gossip-interval", "News is told on each, 200ms if not given.", "DURATION"),
                CommandFlag("gossip-nodes", "To so many members each time, 3 if not given.", "NUMBER"),
                CommandFlag("push-nodes", "News is told to so many at once, 5 if not given.", "NUMBER"),
                CommandFlag("suspicion-mult", "How long a suspect may answer, 4 if not given.", "NUMBER"),
                CommandFlag("retransmit-mult", "How often news is told, 4 if not given.", "NUMBER"),
            ),
        ),
    ),
    about=ABOUT,
)
