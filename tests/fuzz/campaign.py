"""For so many minutes: clusters, plaintext and sealed in turn, slice after slice, data folders in between."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.fuzz.cluster import Attacked, attacked
from tests.fuzz.figures import Figures
from tests.fuzz.slices import folder, mixed
from tests.fuzz.starts import start_with
from tests.fuzz.trees import Input
from tests.fuzz.watch import Finding

ROUND_S_MAX = 300.0  # of one cluster: what grows slowly needs time to show
SLICES_PER_FOLDER = 6
FOLDER = "/folder/"  # in the seed of one


@dataclass(frozen=True, slots=True)
class Failure:
    seed: str  # of the slice
    is_sealed: bool
    why: str

    @property
    def inputs(self) -> Sequence[Input]:
        return folder(self.seed) if FOLDER in self.seed else mixed(self.seed)

    def __str__(self) -> str:
        sealed = " --sealed" if self.is_sealed else ""
        return f"{self.why}\nTo see which inputs do it: python -m tests.fuzz --slice {self.seed}{sealed}"


@dataclass(slots=True)
class Campaign:
    seed: str
    python: str = sys.executable
    figures: Figures = field(default_factory=Figures)
    failures: list[Failure] = field(default_factory=list)
    _slices: int = 0

    def run(self, minutes: float) -> None:
        """Until the time is up; a failure ends the round of its cluster."""
        ends_s, round_s, rounds = time.monotonic() + minutes * 60, min(ROUND_S_MAX, minutes * 30), 0
        while time.monotonic() < ends_s:
            is_sealed = bool(rounds % 2)
            with attacked(is_sealed=is_sealed, python=self.python) as cluster:
                self._round(cluster, min(ends_s, time.monotonic() + round_s), is_sealed=is_sealed)
            rounds += 1

    def _round(self, cluster: Attacked, ends_s: float, *, is_sealed: bool) -> None:
        is_well, is_settled = True, False
        while is_well and time.monotonic() < ends_s:
            is_well = self.slice(cluster, is_sealed=is_sealed)
            if is_well and not is_settled:
                cluster.settle()
                is_settled = True
            if self._slices % SLICES_PER_FOLDER == 0:
                self.folder()
        self.figures.add(cluster)
        if is_well:
            self._end(cluster, is_sealed=is_sealed)

    def _end(self, cluster: Attacked, *, is_sealed: bool) -> None:
        try:
            cluster.end()
        except Finding as finding:
            self.failures.append(Failure(f"{self.seed}/{self._slices}", is_sealed, str(finding)))

    def slice(self, cluster: Attacked, *, is_sealed: bool) -> bool:
        """Whether it went well."""
        self._slices += 1
        seed = f"{self.seed}/{self._slices}"
        try:
            cluster.send_all(mixed(seed))
            cluster.look()
        except Finding as finding:
            self.failures.append(Failure(seed, is_sealed, str(finding)))
            return False
        return True

    def folder(self) -> None:
        seed, is_started = f"{self.seed}{FOLDER}{self.figures.folders}", False
        try:
            is_started = start_with(folder(seed), self.python)
        except Finding as finding:
            self.failures.append(Failure(seed, is_sealed=False, why=str(finding)))
        self.figures.add_folder(is_started=is_started)
