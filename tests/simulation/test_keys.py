"""Keys through client agents, with servers that are killed, paused and cut off, from seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count

import pytest

from adsum.dedup import DedupKey
from adsum.forwarded import ForwardedWrite
from adsum.kv import KeyCause, KeyRefusal, KeyWrite
from adsum.testing.checkers import Violation
from adsum.testing.key_swarm import run


@pytest.mark.parametrize("seed", range(4))
def test_every_answer_is_one_of_a_register_and_no_write_is_done_twice(seed: int) -> None:
    told = run(seed)
    assert told.operations > 150
    assert told.changes_seen > 50
    assert told.doubtful > 10


def test_a_seed_is_one_run_in_every_process() -> None:
    program = "from adsum.testing.key_swarm import run; print(run(7).digest)"
    again = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert again.stdout.strip() == str(run(7).digest)


def test_a_retry_under_another_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    names = count(10_000)

    def under_another_name(write: KeyWrite, key: DedupKey, wall_ms: int, seen: int) -> ForwardedWrite:
        return ForwardedWrite(write, key._replace(sequence=next(names)), wall_ms, seen)

    monkeypatch.setattr("adsum.agent.forwarding.ForwardedWrite", under_another_name)
    with pytest.raises(Violation, match="was written at"):
        run(0)


def test_a_refusal_of_what_may_have_been_done_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    certain = KeyRefusal(KeyCause.NO_LEADER, "it was not done")
    monkeypatch.setattr("adsum.agent.forwarding._unknown", lambda _sentence: certain)
    with pytest.raises(Violation, match=r"was refused, and it is written"):
        run(1)
