"""Everything that can happen to a few writes of two agents, or to two sessions that want two locks, gone
through, with faults at any place."""

from __future__ import annotations

import pytest

from adsum.kv import KeyVerb, StoreOutcome
from tests.store import lock_world
from tests.store.lock_world import Extent, explored
from tests.store.small_world import Asking, SmallWorld, restored, whole_of

PUT, DELETE, TREE = KeyVerb.PUT, KeyVerb.DELETE, KeyVerb.DELETE_TREE
Programs = list[list[Asking]]
Step = tuple[str, int]

SIX_WRITES: Programs = [
    [Asking(PUT, b"a", b"1"), Asking(PUT, b"a", b"1", flags=9), Asking(PUT, b"a", b"2", compares=True)],
    [Asking(PUT, b"a/b", b"3"), Asking(DELETE, b"a", compares=True), Asking(TREE, b"a/")],
]
FOUR_WRITES: Programs = [
    [Asking(PUT, b"a/b", b"1"), Asking(PUT, b"a/b", b"2", compares=True), Asking(PUT, b"a/b", b"1")],
    [Asking(TREE, b"a")],
]


@pytest.mark.parametrize(("programs", "faults"), [(SIX_WRITES, 1), (FOUR_WRITES, 2)], ids=["one", "two"])
def test_with_so_many_faults_each_write_is_run_once_or_its_agent_is_told(
    programs: Programs, faults: int
) -> None:
    states, said = explore(programs, faults)
    print(f"{faults} faults: {states} states")
    assert said == {
        *(StoreOutcome.DONE, StoreOutcome.COMPARE_FAILED),
        *(StoreOutcome.NOT_DONE, StoreOutcome.UNKNOWN, StoreOutcome.OLD_GENERATION),
    }


def explore(programs: Programs, faults: int) -> tuple[int, set[StoreOutcome]]:
    """How many states there are, and what was answered on the way to them. What cannot be gone on from where
    one stands is gone to from the start: nothing has to be copied, and a failure names its way."""
    met: set[int] = set()
    restarted: set[int] = set()
    said: set[StoreOutcome] = set()
    paths: list[tuple[Step, ...]] = [()]
    while paths:
        path = paths.pop()
        world = SmallWorld(programs, faults)
        try:
            for step in path[:-1]:
                world.do(*step)
            world.is_checking = True
            for step in path[-1:]:
                world.do(*step)
            while (whole := hash(world.whole())) not in met:
                met.add(whole)
                check_restart(world, restarted)
                choices = world.choices()
                if not choices:
                    break
                paths += [(*path, step) for step in choices[1:]]
                path = (*path, choices[0])
                world.do(*choices[0])
        except AssertionError as error:
            error.add_note(f"after {path}")
            raise
        said |= world.said
    return len(met), said


def check_restart(world: SmallWorld, restarted: set[int]) -> None:
    """What is read back from a snapshot is the same; each machine is looked at once."""
    whole = whole_of(world.machine)
    if hash(repr(whole)) not in restarted:
        restarted.add(hash(repr(whole)))
        other = restored(world.machine)
        assert whole_of(other) == whole
        assert other.hash() == world.machine.hash()


@pytest.mark.parametrize(
    ("extent", "outcomes"),
    [
        (Extent(steps=4), 5),
        (Extent(steps=3, times_later=2), 4),
        (Extent(steps=2, times_later=1, renewals=1, leaders=1), 4),
    ],
    ids=["whole programs", "delays", "leaders"],
)
def test_two_sessions_and_two_locks_are_as_the_rules_have_it_whatever_comes_first(
    extent: Extent, outcomes: int
) -> None:
    """B13, B14, B15 and B16, where they concern the state machine, which may start again at any place."""
    states, said, restarted = 0, set[StoreOutcome](), set[int]()
    for world in explored(extent):
        states += 1
        said |= world.said
        whole = repr(lock_world.whole_of(world.machine))
        if hash(whole) not in restarted:
            restarted.add(hash(whole))
            other = lock_world.restored(world.machine)
            assert repr(lock_world.whole_of(other)) == whole
            assert other.hash() == world.machine.hash()
    print(f"{extent}: {states} states, {len(restarted)} of the machine")
    assert len(said) == outcomes, said
