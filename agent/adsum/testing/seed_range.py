"""Which seeds a long run takes: new ones each time, so that no fixed range is all that ever passes, and
printed, so that a failure can be run again."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from random import SystemRandom

FIRST_MIN, FIRST_MAX = 10_000, 1 << 40  # those below are for `make test`, and fixed there


def seeds_parser(description: str, *, seeds: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=seeds, help="how many")
    parser.add_argument("--first", type=int, help="drawn if not given")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    return parser


def seed_range(asked: argparse.Namespace) -> range:
    first = asked.first if asked.first is not None else SystemRandom().randrange(FIRST_MIN, FIRST_MAX)
    sys.stdout.write(f"Seeds from {first} on (--first {first}).\n")
    sys.stdout.flush()
    return range(first, first + asked.seeds)
