"""The agent as it is, but that it tells what held its loop: each pass that took longer than the budget.

    python tests/bench/held_agent.py agent …      as `adsum agent …`

A line of JSON for each of them goes to the file that $HELD names. On a machine that others use a pass may be
late because its thread had work and no core, or because another thread of the process, which had the
interpreter's lock, had none: Linux counts that for each thread (schedstat), and it is told apart. Where the
loop was when a third of the budget was over, and every five milliseconds after that, stands beside it.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from collections import deque
from pathlib import Path

import msgspec

from adsum.cli.main import main
from adsum.now import MILLISECOND
from adsum.observe import loop_lag
from adsum.observe.loop_lag import BUDGET_NS, LoopLag

LOOKS_APART_S = 0.005
LOOKS_KEPT = 1_000
FRAMES = 4
TASKS = Path("/proc/self/task")


class Held(msgspec.Struct):
    """All in milliseconds."""

    at_s: float  # of the clock of all processes
    held: float
    ran: float
    waited: float  # for a core
    others_ran: float  # the other threads: whoever has the interpreter's lock keeps the loop from running
    others_waited: float  # for theirs
    collected: float  # Python's collector
    places: list[str]

    @property
    def own(self) -> float:
        """What is left with a core for everybody."""
        blocked = self.held - self.ran - self.waited
        return self.ran + max(0.0, blocked - self.others_waited)


class TellingLoopLag(LoopLag):
    def __init__(self) -> None:
        super().__init__()
        self.number = threading.get_native_id()
        self.schedstat = os.open(TASKS / str(self.number) / "schedstat", os.O_RDONLY)
        self.told = os.open(os.environ["HELD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.thread = threading.get_ident()
        self.waited_ns = self.ran_ns = 0
        self.places: list[str] = []
        self.others: deque[tuple[int, int, int]] = deque([(0, 0, 0)], maxlen=LOOKS_KEPT)
        threading.Thread(target=self.look, daemon=True).start()

    def after_io_wait(self, timeout: float) -> None:
        self.ran_ns, self.waited_ns = self.times_ns()
        super().after_io_wait(timeout)

    def note_pass(self, began_ns: int, ended_ns: int) -> None:
        super().note_pass(began_ns, ended_ns)
        held_ns = ended_ns - began_ns
        if held_ns > BUDGET_NS:
            ran_ns, waited_ns = self.times_ns()
            _, *before = max((each for each in list(self.others) if each[0] <= began_ns), default=(0, 0, 0))
            others_ns = [now - then for now, then in zip(self.others_ns(), before, strict=True)]
            times = (held_ns, ran_ns - self.ran_ns, waited_ns - self.waited_ns, *others_ns)
            held_ms, ran_ms, waited_ms, others_ran_ms, others_waited_ms = (
                each / MILLISECOND for each in times
            )
            collected_ms = COLLECTING.within(began_ns) / MILLISECOND
            others_ms = (others_ran_ms, others_waited_ms)
            held = Held(time.monotonic(), held_ms, ran_ms, waited_ms, *others_ms, collected_ms, self.places)
            os.write(self.told, msgspec.json.encode(held) + b"\n")
        self._began_ns, self.places = None, []

    def times_ns(self) -> tuple[int, int]:
        ran, waited, _slices = os.pread(self.schedstat, 100, 0).split()
        return int(ran), int(waited)

    def others_ns(self) -> tuple[int, int]:
        """How long the other threads ran, and how long they waited for a core."""
        ran_ns = waited_ns = 0
        for task in os.listdir(TASKS):
            if int(task) != self.number:
                try:
                    ran, waited, _slices = (TASKS / task / "schedstat").read_bytes().split()
                except OSError:
                    continue  # it has ended
                ran_ns, waited_ns = ran_ns + int(ran), waited_ns + int(waited)
        return ran_ns, waited_ns

    def look(self) -> None:
        """From a thread of its own: what the loop's thread is doing when a pass takes long."""
        while True:
            time.sleep(LOOKS_APART_S)
            self.others.append((time.perf_counter_ns(), *self.others_ns()))
            began_ns = self._began_ns
            if began_ns is not None and time.perf_counter_ns() - began_ns > BUDGET_NS // 3:
                summary = traceback.extract_stack(sys._current_frames().get(self.thread))[-FRAMES:]
                told = [f"{Path(each.filename).name}:{each.lineno} {each.name}" for each in summary]
                self.places.append(" > ".join(told))


class Collecting:
    def __init__(self) -> None:
        self.runs: deque[tuple[int, int]] = deque(maxlen=8)
        self._began_ns = 0

    def note(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._began_ns = time.perf_counter_ns()
        else:
            self.runs.append((self._began_ns, time.perf_counter_ns()))

    def within(self, since_ns: int) -> int:
        return sum(ended - max(began, since_ns) for began, ended in self.runs if ended > since_ns)


COLLECTING = Collecting()


if __name__ == "__main__":
    gc.callbacks.append(COLLECTING.note)
    loop_lag.LoopLag = TellingLoopLag  # type: ignore[misc]
    sys.exit(main())
