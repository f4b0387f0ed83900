"""How often Python's garbage collector ran, and for how long it held everything."""

from __future__ import annotations

import gc
import time


class GcPauses:
    def __init__(self) -> None:
        self.runs = 0
        self.paused_ns = 0
        self._began_ns = 0

    def start(self) -> None:
        gc.callbacks.append(self._note)

    def stop(self) -> None:
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:  # noqa: ARG002 (gc's signature)
        if phase == "start":
            self._began_ns = time.perf_counter_ns()
        else:
            self.runs += 1
            self.paused_ns += time.perf_counter_ns() - self._began_ns
