from __future__ import annotations

import socket
from uuid import UUID

import pytest

from adsum.config.config import Config
from adsum.process.identity import NODE_ID_PATH, interface_addresses, node_id, only_address
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


def test_the_interfaces_of_this_host_are_asked_for_their_addresses() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        assert "127.0.0.1" in interface_addresses(asked)


def test_without_a_route_out_the_only_address_is_taken() -> None:
    assert only_address(["127.0.0.1", "10.0.0.1"]) == "10.0.0.1"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (["127.0.0.1", "10.0.0.1", "172.17.0.1"], "several addresses (10.0.0.1, 172.17.0.1)"),
        (["127.0.0.1"], "no address yet"),
    ],
)
def test_a_choice_of_addresses_is_the_operator_s(
    found: list[str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert only_address(found) == "127.0.0.1"
    assert said in caplog.text
    assert "advertise_addr" in caplog.text
