from __future__ import annotations

import time

import trio

from adsum.now import MILLISECOND, SECOND
from adsum.observe.loop_lag import BOUNDS_NS, WINDOW_NS, GcPauses, LoopLag


def test_passes_are_sorted_by_length() -> None:
    lag = LoopLag()
    for held_ns in (1, BOUNDS_NS[0], BOUNDS_NS[0] + 1, 20 * MILLISECOND, 20 * MILLISECOND + 1, 5 * SECOND):
        lag.note_pass(100, 100 + held_ns)
    assert lag.passes == [2, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1]
    assert lag.over_budget == 2
    assert lag.held_ns == 1 + 2 * BOUNDS_NS[0] + 1 + 40 * MILLISECOND + 1 + 5 * SECOND


def test_the_longest_is_told_for_one_to_two_windows_and_then_forgotten() -> None:
    lag = LoopLag()
    lag.note_pass(0, 50)
    lag.note_pass(WINDOW_NS + 100, WINDOW_NS + 130)
    assert lag.longest_ns(WINDOW_NS + 140) == 50
    lag.note_pass(2 * WINDOW_NS + 200, 2 * WINDOW_NS + 210)
    assert lag.longest_ns(2 * WINDOW_NS + 220) == 30
    assert lag.longest_ns(5 * WINDOW_NS) == 0


def test_a_task_that_holds_the_loop_is_seen() -> None:
    lag = LoopLag()

    async def hold() -> None:
        await trio.lowlevel.checkpoint()
        began_ns = time.perf_counter_ns()
        while time.perf_counter_ns() - began_ns < 25 * MILLISECOND:
            pass
        await trio.lowlevel.checkpoint()

    trio.run(hold, instruments=[lag])
    assert lag.over_budget >= 1
    assert lag.longest_ns(time.perf_counter_ns()) >= 25 * MILLISECOND


def test_waiting_is_not_holding() -> None:
    lag = LoopLag()

    async def wait() -> None:
        with trio.move_on_after(0.3):
            await trio.sleep_forever()

    trio.run(wait, instruments=[lag])
    assert lag.held_ns < 150 * MILLISECOND


def test_collections_are_counted_and_timed() -> None:
    import gc

    pauses = GcPauses()
    pauses.start()
    gc.collect()
    pauses.stop()
    runs, paused_ns = pauses.runs, pauses.paused_ns
    gc.collect()
    assert runs >= 1
    assert paused_ns > 0
    assert (pauses.runs, pauses.paused_ns) == (runs, paused_ns)
