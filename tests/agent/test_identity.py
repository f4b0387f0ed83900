from __future__ import annotations

from uuid import UUID

import pytest

from adsum.agent.config.config import Config
from adsum.agent.identity import NODE_ID_PATH, node_id
from adsum.testing.disk import SimulatedDisk

FIRST, SECOND = UUID(int=1), UUID(int=2)


def test_a_node_keeps_the_id_it_minted() -> None:
    disk = SimulatedDisk()
    assert node_id(Config(), disk, lambda: FIRST) == str(FIRST)
    disk.lose_power()
    assert node_id(Config(), disk, lambda: SECOND) == str(FIRST)


@pytest.mark.parametrize("damaged", [b"", b"\xff\x00", str(FIRST).encode()[:20]])
def test_a_damaged_id_is_set_aside_and_the_new_one_told(
    damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    disk.write_durably(NODE_ID_PATH, damaged)
    assert node_id(Config(), disk, lambda: SECOND) == str(SECOND)
    assert disk.read(NODE_ID_PATH) == str(SECOND).encode()
    assert disk.read(NODE_ID_PATH + ".damaged") == damaged
    assert str(SECOND) in caplog.text
