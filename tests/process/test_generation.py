from __future__ import annotations

import pytest

from adsum.agent.saved_files import GENERATION
from adsum.now import Now
from adsum.process.generation import next_generation
from adsum.storage.owed import Owed, OwingDisk
from adsum.testing.disk import SimulatedDisk

NOW = Now(0, 1_795_000_000_000)


def test_each_life_has_a_greater_generation_also_when_the_clock_went_back() -> None:
    disk = SimulatedDisk()
    first = next_generation(disk, NOW)
    disk.lose_power()
    assert next_generation(disk, Now(0, NOW.wall_ms - 1_000)) == first + 1 == NOW.wall_ms + 1


def test_a_life_that_cannot_be_kept_is_lived_all_the_same_and_kept_when_there_is_room() -> None:
    disk = SimulatedDisk()
    first = next_generation(disk, NOW)
    disk.fill()
    owed = Owed(disk)
    assert next_generation(OwingDisk(owed), Now(0, NOW.wall_ms - 1_000)) == first + 1
    assert disk.read(GENERATION) == b"1795000000000"
    disk.room_bytes = None
    assert owed.retry() is None
    assert disk.read(GENERATION) == b"1795000000001"


@pytest.mark.parametrize("damaged", [b"", b"noise", b"-5", b"9" * 6_000, str((1 << 53) - 1).encode()])
def test_a_damaged_generation_is_set_aside_and_the_clock_decides(
    damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    disk.write_durably(GENERATION, damaged)
    assert next_generation(disk, NOW) == NOW.wall_ms
    assert disk.read(GENERATION + ".damaged") == damaged
    assert "damaged" in caplog.text
