"""Real agents tell why one of them is gone, also after the one that tells was killed itself."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.system.agents import adsum_program, until
from tests.system.clusters import Cluster, Member, gathered, loopbacks

WAIT_S = 30.0
ADSUM = adsum_program().command[0]


@pytest.fixture
def three() -> Iterator[Cluster]:
    with gathered(adsum_program(), loopbacks(3)) as cluster:
        cluster.wait_for_one_view()
        yield cluster


def adsum(member: Member, *words: str) -> tuple[int, str]:
    environment = os.environ | {"ADSUM_HTTP_ADDR": f"127.0.0.1:{member.place.ports.http}"}
    done = subprocess.run([ADSUM, *words], capture_output=True, text=True, env=environment, timeout=30)
    return done.returncode, done.stdout


def story(member: Member, about: Member) -> list[str]:
    _status, out = adsum(member, "explain", about.name, "-o=json")
    return [step["Sentence"] for step in json.loads(out)["Story"]]


def timeline(member: Member, about: Member) -> list[tuple[str, str]]:
    _status, out = adsum(member, "timeline", f"-node={about.name}", "-o=json")
    return [(entry["To"], entry["Cause"]) for entry in json.loads(out) if entry["Kind"] == "change"]


def turns_to(member: Member, about: Member, last: tuple[str, str]) -> bool:
    return until(lambda: timeline(member, about)[-1] == last, within_s=WAIT_S)


def test_a_crash_is_explained_by_everybody_and_the_journal_survives_one(three: Cluster) -> None:
    teller, other, gone = three.members
    gone.kill()
    for member in (teller, other):
        assert turns_to(member, gone, ("failed", "refused"))
        status, out = adsum(member, "explain", gone.name)
        assert status == 1
        assert f"{gone.name} is failed: its host refuses connections" in out
        assert "Next: Its host is up" in out
    before = timeline(teller, gone)
    assert [turned for turned, _cause in before] == ["alive", "suspect", "failed"]
    teller.kill()
    teller.restart()
    assert until(lambda: adsum(teller, "timeline")[0] == 0, within_s=WAIT_S)
    assert until(lambda: len(timeline(teller, gone)) > len(before), within_s=WAIT_S)
    assert timeline(teller, gone)[: len(before)] == before


def test_a_pause_is_told_as_refuted(three: Cluster) -> None:
    teller, _other, held = three.members
    held.pause()
    assert turns_to(teller, held, ("suspect", "suspected"))
    held.resume()
    assert turns_to(teller, held, ("alive", "refuted"))
    told = story(teller, held)
    assert f" suspects {held.name}: no answer to a datagram" in told[0]
    assert told[-1].startswith(f"{held.name} refuted it")
    assert f"accused {held.name}" in story(held, held)[-1]
