"""How soon changes are known, simulated: the cores of this build beside those of another one of ours.

    python -m tests.bench.simulated FOLDER [WORD …]    a checkout; WORD is part of a name below
    --nodes 100                                        for trials; targets are meant for the full size

    updates of 1000, 3000    a member describes itself anew: known to 99 of 100, and to all
    catalog                  20 services each, 20 flips a second: when do copies show them
    strain flips             2,000 flips within a second
    strain joins             1,000 start at once beside 100
    strain loss              30 % loss at one agent

Each build is measured in its own simulated world; a measurement that the other does not have yet is taken
from here. All at 5 % loss, from one seed. It takes some ten minutes for each build, and 3 GB.

The exit status is 1 when a figure falls short of its target.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figure import Figure, heading, summary
from tests.system.agents import ROOT

NODES = 1_000
ROOTS = ("agent", "dns", "health_checks")
WORSE_MAX = 1.05
CHILD = """
import sys
import adsum.testing
adsum.testing.__path__.append(sys.argv[1])
from tests.bench.simulated_values import main
main(sys.argv[2], int(sys.argv[3]))
"""

Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Target:
    unit: str = "{:.3f} s"
    at_most: float | None = None
    ratio: float | None = None


NAMES = (
    "updates of 1000",
    "updates of 3000",
    "catalog",
    "strain flips",
    "strain joins",
    "strain loss",
)
NUMBER = "{:,.0f}"
NO_WORSE = Target(ratio=WORSE_MAX)
NO_MORE = Target(NUMBER, ratio=WORSE_MAX)
TARGETS: dict[str, dict[str, Target]] = {
    "updates": {
        "99 of 100, worst": Target(at_most=0.15),
        "all, worst": Target(at_most=0.7),
        "false verdicts": Target(NUMBER, at_most=0),
    },
    "catalog": {
        "p50": Target(at_most=0.05),
        "p99": Target(at_most=0.25),
        "worst": Target(at_most=1.0),
        "gossip bytes a second": Target(NUMBER, ratio=1.2),
    },
    "strain": {
        "p50": NO_WORSE,
        "p99": NO_WORSE,
        "worst": NO_WORSE,
        "all equal after": NO_WORSE,
        "gossip bytes a second": NO_MORE,
        "exchange bytes a second": NO_MORE,
        "messages a second": Target("{:.1f}"),
        "most datagrams of one in a second": Target(NUMBER),
        "most bytes of one in a second": NO_MORE,
    },
}


def main() -> int:
    options = parsed()
    started, found = time.monotonic(), list[Figure]()
    print(heading("other build"))
    for name in NAMES:
        if not options.words or any(word in name for word in options.words):
            ours, others = (measured(name, options.nodes, tree) for tree in (ROOT, Path(options.folder)))
            told = figures(name, ours, others)
            print(name, *(figure.line() for figure in told), sep="\n", flush=True)
            found += told
    print(summary(found, [], time.monotonic() - started, name="simulated"))
    return int(any(figure.reached is False for figure in found))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.simulated")
    parser.add_argument("folder", help="a checkout of the other build")
    parser.add_argument("words", nargs="*", help="measurements whose name contains one of these")
    parser.add_argument("--nodes", type=int, default=NODES)
    return parser.parse_args()


def measured(name: str, nodes: int, tree: Path) -> Values:
    """In a process whose `adsum` is that tree's; what its `adsum.testing` has not is taken from here."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(tree.resolve() / root) for root in ROOTS)}
    command = [sys.executable, "-c", CHILD, str(ROOT / "agent" / "adsum" / "testing"), name, str(nodes)]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    values: Values = json.loads(done.stdout)
    return values


def figures(name: str, ours: Values, others: Values) -> list[Figure]:
    targets = TARGETS[name.split()[0]]
    return [figure(f"  {key}", ours[key], others[key], targets.get(key, Target("{:,.3g}"))) for key in ours]


def figure(name: str, ours: float, other: float, target: Target) -> Figure:
    unit = target.unit.format
    ratio = ours / other if other else 0.0
    if target.at_most is not None:
        return Figure(
            name, unit(ours), unit(other), ratio, f"at most {unit(target.at_most)}", ours <= target.at_most
        )
    if target.ratio is not None:
        is_reached = ours <= target.ratio * other
        return Figure(name, unit(ours), unit(other), ratio, f"at most {target.ratio} ×", is_reached)
    return Figure(name, unit(ours), unit(other), ratio, "for information", None)


if __name__ == "__main__":
    sys.exit(main())
