"""The agent as it ships, but that the passes of its loop are measured in processor time.

On a machine that others use as well, a pass takes long by the clock on the wall because somebody else ran;
what an input made the agent do is what its thread ran.
"""

from __future__ import annotations

import sys
import time

from adsum.cli.main import main
from adsum.observe.loop_lag import LoopLag
from adsum.process import first_phase


class ProcessorLag(LoopLag):
    def __init__(self) -> None:
        super().__init__()
        self._ran_ns = 0

    def after_io_wait(self, _timeout: float) -> None:
        self._ran_ns = time.thread_time_ns()

    def before_io_wait(self, _timeout: float) -> None:
        if self._ran_ns:
            ended_ns = time.perf_counter_ns()
            self.note_pass(ended_ns - (time.thread_time_ns() - self._ran_ns), ended_ns)


vars(first_phase)["LoopLag"] = ProcessorLag  # the one that it makes at start

if __name__ == "__main__":
    sys.exit(main())
