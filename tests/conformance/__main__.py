"""Sends real Consul and Adsum the same questions and prints the differences. Entered by `make conformance`.

    python -m tests.conformance [WORD …] [-v]   only cases whose family or name contains one of the words
    python -m tests.conformance --self          Consul against itself: any difference is a fault of ours
    python -m tests.conformance --show WORD …   print what Consul answers

Consul 1.8.7 is taken from $PEERS or unpacked by ../shared/peers/get. The exit status is 1 when a difference
is not explained by a D-id of docs/deviations.md, or a D-id no longer shows.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.conformance.expected import undocumented
from tests.conformance.families import families
from tests.conformance.report import Report
from tests.conformance.run import run_cases
from tests.system.agents import AgentFailed, Program, adsum_program, consul_program

NO_CONSUL = (
    "Skipped: no real Consul to compare with. Set PEERS to a folder that has usr/bin/consul, "
    "or put the script that unpacks it at ../shared/peers/get."
)


def main() -> int:
    options = parsed()
    consul = consul_program()
    if consul is None:
        print(NO_CONSUL)
        return 0
    ours = Program("again", consul.command) if options.self or options.show else adsum_program()
    try:
        return compare(options.words, consul, ours, verbose=options.verbose, show_answers=options.show)
    except AgentFailed as failure:
        print(f"The comparison stopped: {failure}")
        return 1


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description="Adsum beside real Consul"
    )
    parser.add_argument("words", nargs="*", help="families or cases whose name contains one of these")
    parser.add_argument("-v", "--verbose", action="store_true", help="print equal and explained cases too")
    parser.add_argument("--self", action="store_true", help="compare Consul with itself")
    parser.add_argument("--show", action="store_true", help="print Consul's answers (asks Consul only)")
    return parser.parse_args()


def compare(words: list[str], consul: Program, ours: Program, *, verbose: bool, show_answers: bool) -> int:
    report = Report(ours=ours.name, verbose=verbose, show_answers=show_answers)
    started = time.monotonic()
    for family in families():
        cases = [case for case in family.cases if wanted(f"{family.name}: {case.name}", words)]
        if cases:
            print(family.name, flush=True)
        for outcome in run_cases(cases, consul, ours):
            report.add(outcome)
            sys.stdout.flush()
    complaints = [] if words or ours.command == consul.command else claims(report)
    for complaint in complaints:
        print(complaint)
    if ids := report.ids():
        print(f"explained: {ids}")
    print(f"conformance in {time.monotonic() - started:.0f} s: {report.summary()}")
    return int(bool(report.unexplained or complaints))


def claims(report: Report) -> list[str]:
    """The page and the list must say the same, and the run must show it."""
    unseen = [f"{each.id} does not show any more: {each.why}" for each in report.unseen()]
    return unseen + [f"{name} is not in docs/deviations.md" for name in undocumented()]


def wanted(name: str, words: list[str]) -> bool:
    return not words or any(word in name for word in words)


if __name__ == "__main__":
    sys.exit(main())
