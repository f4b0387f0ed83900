"""Hostile values through every door of real agents, for as long as wanted. Entered by `make fuzz MINUTES=10`.

    python -m tests.fuzz --minutes 10            with a seed of its own, which it prints
    python -m tests.fuzz --minutes 10 --seed 7   as before
    python -m tests.fuzz --slice 7/12 --sealed   one slice that failed, here or in `make test`
    python -m tests.fuzz --python PATH           against the Adsum of another interpreter's environment

What fails is made as small as it goes and kept in tests/fuzz/examples, which `make test` replays ever after.
The exit status is 1 when anything failed.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.campaign import Campaign, Failure
from tests.fuzz.shrinking import fails_again, kept, simplest, smallest

FAILURES_SHOWN_MAX = 5  # made small, which takes minutes each; of the rest it is said how many
ATTEMPTS = 3  # to see a slice fail again; whom an agent talks to is its own dice


def main() -> int:
    options = parsed()
    if options.slice:
        return 1 if tell(Failure(options.slice, options.sealed, "as asked for"), options.python) else 0
    seed = options.seed or str(time.time_ns() // 1_000_000_000)
    print(f"Seed {seed}, {options.minutes:g} minutes.", flush=True)
    campaign = Campaign(seed, options.python)
    campaign.run(options.minutes)
    for failure in campaign.failures[:FAILURES_SHOWN_MAX]:
        tell(failure, options.python)
    more = len(campaign.failures) - FAILURES_SHOWN_MAX
    if more > 0:
        print(f"{more} more failures are not shown: mend these first.")
    verdict = f"{len(campaign.failures)} failures" if campaign.failures else "No finding"
    print(f"{verdict} with seed {seed}; {campaign.figures}.")
    return 1 if campaign.failures else 0


def tell(failure: Failure, python: str) -> bool:
    """Whether it failed again."""
    print(f"\nFAILED: {failure}", flush=True)
    fails = fails_again(is_sealed=failure.is_sealed, python=python)
    name, inputs = re.sub(r"\W+", "-", failure.seed), failure.inputs
    if not any(fails(inputs) for _ in range(ATTEMPTS)):
        path = kept(name, inputs, Path(tempfile.gettempdir()))
        print(f"It did not fail again; all {len(inputs)} inputs of the slice are in {path}.", flush=True)
        return False
    fewest = simplest(smallest(inputs, fails), fails)
    path = kept(name, fewest)
    print(f"It fails again, also with {len(fewest)} of {len(inputs)} inputs: {path}.", flush=True)
    return True


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", default="")
    parser.add_argument("--slice", default="")
    parser.add_argument("--sealed", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
