"""Whole agents on simulated time: clients register and deregister, the process is killed, the power goes, the
disk fills up or is mounted read-only, and mended again.

What a client was told is there, or gone, stays so; what was refused is visible to nobody and on no disk; what
nobody was told about yet may be either after a restart. Each seed is one life.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from random import Random

import pytest

from adsum.agent.commands import Command, DeregisterService, RegisterService
from adsum.catalog.definitions import CheckStatus
from adsum.now import MILLISECOND, SECOND
from adsum.testing.lone_agent import LoneAgent
from adsum.testing.samples import HTTP_CHECK, SETTINGS, WEB

SEEDS = range(40)
STEPS = 150
SERVICE_IDS = [f"s{number}" for number in range(8)]


class Life:
    def __init__(self, seed: int) -> None:
        self.choices = Random(f"choices {seed}")
        self.world = LoneAgent(SETTINGS, seed=seed)
        # By service id: the port that was acknowledged, then those under way; 0 is "not registered".
        self.possible: dict[str, list[tuple[int, int]]] = {each: [(0, 0)] for each in SERVICE_IDS}
        self.ports = iter(range(1, 10_000))

    def step(self) -> None:
        steps = [self.register, self.deregister, self.wait, self.crash, self.trouble_disk]
        self.choices.choices(steps, [5, 3, 4, 1, 1])[0]()
        self.settle()
        self.check()

    def register(self) -> None:
        service_id, port = self.choices.choice(SERVICE_IDS), next(self.ports)
        check = replace(HTTP_CHECK, check_id=f"service:{service_id}", service_id=service_id)
        self.ask(
            service_id, port, RegisterService(replace(WEB, service_id=service_id, port=port, checks=(check,)))
        )

    def deregister(self) -> None:
        service_id = self.choices.choice(SERVICE_IDS)
        self.ask(service_id, 0, DeregisterService(service_id))

    def ask(self, service_id: str, port: int, command: Command) -> None:
        self.possible[service_id].append((port, self.world.command(command)))

    def wait(self) -> None:
        self.world.run_for(self.choices.randrange(20 * MILLISECOND))

    def crash(self) -> None:
        self.world.crash(loses_power=self.choices.random() < 0.5)
        for service_id, possible in self.possible.items():
            found = self.port_of(service_id)
            assert found in [port for port, _request in possible], f"{service_id}: {found} of {possible}"
            self.possible[service_id] = [(found, 0)]

    def trouble_disk(self) -> None:
        disk = self.world.disk
        disk.is_read_only = self.choices.random() < 0.3
        used_bytes = sum(map(len, disk.files.values()))
        disk.room_bytes = self.choices.choice([None, 0, used_bytes + self.choices.randrange(1_000)])

    def settle(self) -> None:
        """An acknowledged change rules out everything before it, a refused one itself."""
        for service_id, possible in self.possible.items():
            replies = self.world.replies
            left = [(port, request) for port, request in possible if not replies.get(request)]
            acknowledged = [place for place, (_port, request) in enumerate(left) if request in replies]
            self.possible[service_id] = left[acknowledged[-1] :] if acknowledged else left

    def check(self) -> None:
        """While it lives, the agent shows the last thing it acknowledged, and every list of it agrees."""
        own, view = self.world.core.own, self.world.core.view
        for service_id, possible in self.possible.items():
            assert self.port_of(service_id) == possible[0][0]
        assert {each.service.value.service_id for each in view.instances("web")} == set(own.services)
        bound = {check.definition.service_id for check in own.checks.values()}
        assert bound <= set(own.services)

    def port_of(self, service_id: str) -> int:
        service = self.world.core.own.services.get(service_id)
        return service.definition.port if service else 0


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_survives_kills_and_power_losses(seed: int) -> None:
    life = Life(seed)
    for _ in range(STEPS):
        life.step()


def test_the_lives_do_contain_crashes_with_changes_under_way() -> None:
    interrupted = 0
    for seed in SEEDS:
        life = Life(seed)
        for _ in range(STEPS):
            before = sum(len(possible) > 1 for possible in life.possible.values())
            crashes = sum(line.startswith("crash") for line in life.world.trace)
            life.step()
            if sum(line.startswith("crash") for line in life.world.trace) > crashes:
                interrupted += before > 0
    assert interrupted > 50


def test_the_lives_do_contain_changes_that_the_disk_refused() -> None:
    reasons: dict[str, int] = {}
    for seed in SEEDS:
        life = Life(seed)
        for _ in range(STEPS):
            life.step()
        for refusal in filter(None, life.world.replies.values()):
            reasons[refusal.sentence] = reasons.get(refusal.sentence, 0) + 1
    could_not = "Nothing was changed, because it could not be kept in data_dir: "
    assert sorted(reasons) == [
        f"{could_not}no space left on device: make room on its disk, and try again",
        f"{could_not}read-only file system: mount it writable again, and try again",
    ]
    assert min(reasons.values()) > 100


def digest_of_one_life() -> str:
    life = Life(7)
    flips = Random(7)
    for service_id in SERVICE_IDS:
        life.world.outcomes[0, f"service:{service_id}"] = lambda: (flips.choice(list(CheckStatus)), "")
    for _ in range(STEPS):
        life.step()
        life.world.run_for(SECOND)
    return hashlib.sha256("\n".join(life.world.trace).encode()).hexdigest()


def test_a_seed_gives_the_same_trace_whatever_the_hash_seed() -> None:
    script = "import test_registrations; print(test_registrations.digest_of_one_life())"
    folder = str(__file__).rpartition("/")[0]
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert digests == {digest_of_one_life() + "\n"}
