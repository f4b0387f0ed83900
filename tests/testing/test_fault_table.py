"""Operations that met faults are counted plainly."""

from __future__ import annotations

import subprocess
import sys

from adsum.testing import founding_swarm, judged_request, key_nemesis
from adsum.testing.fault_table import FaultTable, Met, never_met, told_table
from adsum.testing.raft_nemesis import DISK_KINDS, KINDS, OPERATIONS


class Clock:
    now_ns = 0


def table() -> tuple[FaultTable, Clock]:
    clock = Clock()
    return FaultTable(lambda: clock.now_ns), clock


def test_what_begins_while_a_fault_holds_has_met_it() -> None:
    met, clock = table()
    met.began("read", 1)
    met.holds("split", 100, [])
    met.happened("start")
    clock.now_ns = 99
    met.began("propose", 1)
    clock.now_ns = 100
    met.began("propose", 2)
    assert met.met == {("split", "start"): 1, ("split", "propose"): 1}


def test_what_is_under_way_when_a_fault_begins_has_met_it_each_time() -> None:
    met, _clock = table()
    met.began("read", "a")
    met.began("propose", "a")
    met.began("propose", "b")
    met.ended("read", "a")
    met.holds("crash", 0, met.under_way())
    met.died("b")
    met.holds("crash", 0, met.under_way())
    assert met.met == {("crash", "propose"): 3}


def test_a_fault_that_is_lifted_or_healed_is_met_by_nothing_more() -> None:
    met, _clock = table()
    met.holds("loss", 1 << 60, [])
    met.holds("delay", 1 << 60, [])
    met.lifted("loss")
    met.happened("start")
    met.heal()
    met.happened("start")
    assert met.met == {("delay", "start"): 1}


def test_a_fault_that_comes_again_holds_as_long_as_the_longer_one() -> None:
    met, clock = table()
    met.holds("pause", 100, [])
    met.holds("pause", 10, [])
    clock.now_ns = 50
    met.happened("start")
    assert met.met == {("pause", "start"): 1}


def test_the_table_has_a_dot_where_they_never_met() -> None:
    met = Met({("loss", "read"): 12, ("crash", "propose"): 3})
    assert told_table(met, ["loss", "crash"], ["propose", "read"]) == (
        "       propose  read\nloss         .    12\ncrash        3     ."
    )


def test_what_never_met_is_named() -> None:
    met = Met({("loss", "read"): 12, ("crash", "propose"): 3, ("crash", "read"): 1})
    assert never_met(met, ["loss", "crash"], ["propose", "read"]) == ["loss and propose"]


def table_of(swarm: str, seeds: int, first_operation: str, faults: int) -> dict[str, list[str]]:
    """The cells that it prints, by fault."""
    program = [sys.executable, "-m", f"adsum.testing.{swarm}", "--seeds", str(seeds), "--first", "0"]
    told = subprocess.run([*program, "--jobs", "1"], capture_output=True, text=True, check=True).stdout
    lines = told.splitlines()
    head = next(place for place, line in enumerate(lines) if line.lstrip().startswith(first_operation))
    rows = [line.split() for line in lines[head + 1 : head + 1 + faults]]
    return {row[0]: row[1:] for row in rows}


def test_a_swarm_prints_which_operations_met_which_faults() -> None:
    told = table_of("raft_swarm", 8, "propose  read  snapshot sent", len([*KINDS, *DISK_KINDS]))
    assert list(told) == [*KINDS, *DISK_KINDS]
    assert {len(cells) for cells in told.values()} == {len(OPERATIONS)}
    assert int(told["large_values"][0]) > 100, "proposals meet them, for seed 0 has little else"


def test_foundings_print_it_as_well() -> None:
    told = table_of("founding_swarm", 20, "founding  taking in", len(founding_swarm.FAULTS))
    assert list(told) == founding_swarm.FAULTS
    assert any(cells[0] != "." for cells in told.values()), "some founding meets some fault"


def test_keys_print_it_with_what_clients_ask() -> None:
    told = table_of("key_swarm", 2, "put  delete  compare", len(key_nemesis.FAULTS))
    assert list(told) == list(key_nemesis.FAULTS)
    assert {len(cells) for cells in told.values()} == {len(judged_request.OPERATIONS)}
