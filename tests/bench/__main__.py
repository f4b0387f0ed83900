"""Measures Adsum beside real Consul on this machine and prints ratios. Entered by `make bench`.

    python -m tests.bench [WORD …]    only the measurements whose name contains one of the words:
                                      side start checks flipping watchers cluster keys sessions crowd lines
                                      million floods freshness
    python -m tests.bench --self      Consul against itself: how near 1 the ratios are says how far to trust
    python -m tests.bench --build FOLDER    another checkout of ours in the place of this one

`cluster`, `keys`, `sessions` and `crowd` are about clusters of four, three servers and a client agent, and
`writers` of two more of those; `freshness` about clusters of forty and of sixty, one after the other; the
others about one agent by itself, and `lines`, `million` and `floods` about it alone. `python -m
tests.bench.builds FOLDER` compares two builds of ours.
Ratios are taken in one run on one machine; the numbers themselves mean little elsewhere. The exit status is
1 when a figure falls short of its target.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tests.bench.agent_lines import agent_lines, crowd_of_writers
from tests.bench.checks import many_checks
from tests.bench.cluster import clusters_side_by_side
from tests.bench.crowd import crowd_of_keys, crowds
from tests.bench.figure import Figure, heading, summary
from tests.bench.flood import floods
from tests.bench.freshness import freshness_of_flips, freshness_of_registrations, freshness_of_shared_flips
from tests.bench.keys import keys_side_by_side
from tests.bench.million import million
from tests.bench.sessions import sessions_side_by_side
from tests.bench.side_by_side import side_by_side
from tests.bench.start import start_to_answer
from tests.bench.tools import LoadFailed, missing_tools
from tests.bench.watchers import flipping, idle_watchers
from tests.system.agents import AgentFailed, Program, adsum_program, build_in, consul_program

MEASUREMENTS: dict[str, Callable[[Program, Program], list[Figure]]] = {
    "side by side": side_by_side,
    "start": start_to_answer,
    "checks": many_checks,
    "flipping": flipping,
    "watchers": idle_watchers,
    "cluster": clusters_side_by_side,
    "keys": keys_side_by_side,
    "sessions": sessions_side_by_side,
    "crowd": crowds,
    "crowd of keys": crowd_of_keys,
    "lines of agents": agent_lines,
    "crowd of writers": crowd_of_writers,
    "million": million,
    "floods": floods,
    "freshness of flips": freshness_of_flips,
    "freshness of shared flips": freshness_of_shared_flips,
    "freshness of registrations": freshness_of_registrations,
}


def main() -> int:
    options = parsed()
    consul = consul_program()
    if consul is None:
        print("Skipped: no real Consul to measure beside. Set PEERS, or see ../shared/peers/get.")
        return 0
    if missing := missing_tools():
        print(f"Skipped: {'; '.join(missing)}")
        return 0
    if options.self:
        ours = Program("again", consul.command)
    else:
        ours = build_in(options.build) if options.build else adsum_program()
    return measure(options.words, ours, consul)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Adsum's speed beside Consul's"
    )
    parser.add_argument("words", nargs="*", help="measurements whose name contains one of these")
    parser.add_argument("--self", action="store_true", help="measure Consul beside itself")
    parser.add_argument("--build", metavar="FOLDER", help="measure the build of another checkout")
    return parser.parse_args()


def measure(words: list[str], ours: Program, consul: Program) -> int:
    started = time.monotonic()
    figures: list[Figure] = []
    broken: list[str] = []
    print(heading())
    for name, measurement in MEASUREMENTS.items():
        if words and not any(word in name for word in words):
            continue
        try:
            found = measurement(ours, consul)
        except (AgentFailed, LoadFailed) as failure:
            broken.append(name)
            print(f"{name}: could not be measured: {failure}", flush=True)
            continue
        figures += found
        print("\n".join(figure.line() for figure in found), flush=True)
    print(summary(figures, broken, time.monotonic() - started))
    return int(bool(broken) or any(figure.reached is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
