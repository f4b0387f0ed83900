"""From the inputs of a slice that failed to as few as fail alike, and where those are kept.

Each try is a cluster of its own, so there are only so many.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from tests.fuzz.cluster import attacked
from tests.fuzz.starts import start_with
from tests.fuzz.trees import Input, line_of, read_line, without_one
from tests.fuzz.watch import Finding

EXAMPLES = Path(__file__).with_name("examples")
TRIES_MAX = 60

Fails = Callable[[Sequence[Input]], bool]


def smallest(inputs: Sequence[Input], fails: Fails, *, tries_max: int = TRIES_MAX) -> list[Input]:
    """Leaves out halves, then quarters, and so on, as long as the rest fails."""
    kept, tries, share = list(inputs), 0, max(1, len(inputs) // 2)
    while tries < tries_max:
        first = 0
        while first < len(kept) and tries < tries_max:
            rest = kept[:first] + kept[first + share :]
            tries += 1
            if rest and fails(rest):
                kept = rest
            else:
                first += share
        if share == 1:
            break
        share //= 2
    return kept


def simplest(inputs: Sequence[Input], fails: Fails, *, tries_max: int = TRIES_MAX) -> list[Input]:
    """Leaves out parts of inputs, the greatest first, as long as what is left fails."""
    kept, place, tries = list(inputs), 0, 0
    while place < len(kept):
        one = kept[place]
        for content in without_one(one.content):
            tries += 1
            changed = [*kept[:place], replace(one, content=content), *kept[place + 1 :]]
            if tries > tries_max:
                return kept
            if fails(changed):
                kept = changed
                break
        else:
            place += 1
    return kept


def fails_again(*, is_sealed: bool, python: str) -> Fails:
    def fails(inputs: Sequence[Input]) -> bool:
        try:
            replay(inputs, is_sealed=is_sealed, python=python)
        except Finding:
            return True
        return False

    return fails


def replay(inputs: Sequence[Input], *, is_sealed: bool = False, python: str = sys.executable) -> None:
    """Raises `Finding`, also for what shows a moment later. Saved files are one data folder."""
    if all(each.door == "file" for each in inputs):
        start_with(inputs, python)
        return
    with attacked(is_sealed=is_sealed, python=python) as cluster:
        cluster.send_all(inputs)
        cluster.look()
        cluster.look_later()
        cluster.end()


def kept(name: str, inputs: Sequence[Input], folder: Path = EXAMPLES) -> Path:
    """What was sent several times in a row is one line, which says how often."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.jsonl"
    runs = [(line, len(list(same))) for line, same in groupby(map(line_of, inputs))]
    path.write_text("".join(f"{times} {line}\n" for line, times in runs))
    return path


def example(path: Path) -> list[Input]:
    inputs: list[Input] = []
    for row in path.read_text().splitlines():
        times, _, line = row.partition(" ")
        inputs += [read_line(line)] * int(times)
    return inputs
