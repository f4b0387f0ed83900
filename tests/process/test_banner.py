"""What an operator reads first."""

from __future__ import annotations

import dataclasses

import pytest
import trio

from adsum.catalog.model import Node as CatalogNode
from adsum.config.config import Addresses, Config
from adsum.process.banner import banner
from tests.process.agents import made

KEY = "pUqJrVyVRj5jsiYEkM/tFQYfWyJIv4s3XkvDwy7Cu5s="
OWN = CatalogNode(
    node_id="6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01", name="n1", address="127.0.0.1", datacenter="dc1"
)
PLAIN = Config(
    node_name="n1",
    advertise_address="127.0.0.1",
    serf_lan_address="127.0.0.1",
    addresses=Addresses(http=("127.0.0.1",)),
)


def gossip_row(text: str) -> str:
    [row] = [line.strip() for line in text.splitlines() if line.strip().startswith("Gossip:")]
    return row


@pytest.mark.parametrize(("is_sealed", "form"), [(False, "in the clear"), (True, "encrypted")])
def test_the_banner_says_whether_gossip_is_encrypted(is_sealed: bool, form: str) -> None:
    told = gossip_row(banner(PLAIN, OWN, is_sealed=is_sealed))
    assert told == f"Gossip: 127.0.0.1 port 8301, UDP and TCP, {form}   try: adsum members"


@pytest.mark.parametrize(
    ("addresses", "http_port", "https_port", "shown"),
    [
        (("127.0.0.1",), 8500, -1, "   try: adsum members"),
        (("127.0.0.11",), 8500, -1, "   try: adsum members -http-addr=http://127.0.0.11:8500"),
        (("unix:///run/a.sock",), 8500, -1, "   try: adsum members -http-addr=unix:///run/a.sock"),
        (("::1",), -1, 8501, "   try: adsum members -http-addr=https://[::1]:8501"),
        (("127.0.0.1",), -1, -1, ""),
    ],
)
def test_the_command_of_the_banner_works_as_it_stands(
    addresses: tuple[str, ...], http_port: int, https_port: int, shown: str
) -> None:
    ports = dataclasses.replace(PLAIN.ports, http=http_port, https=https_port)
    config = dataclasses.replace(PLAIN, addresses=Addresses(http=addresses, https=addresses), ports=ports)
    told = gossip_row(banner(config, OWN, is_sealed=True))
    assert told == f"Gossip: 127.0.0.1 port 8301, UDP and TCP, encrypted{shown}"


@pytest.mark.parametrize(
    ("encrypt", "verify_outgoing", "is_sealed"),
    [("", True, False), (KEY, True, True), (KEY, False, False)],
)
async def test_a_key_that_is_not_used_to_send_is_no_encryption(
    encrypt: str, verify_outgoing: bool, is_sealed: bool
) -> None:
    ports = dataclasses.replace(PLAIN.ports, serf_lan=-1, http=-1, dns=-1)
    config = dataclasses.replace(PLAIN, ports=ports, encrypt=encrypt, encrypt_verify_outgoing=verify_outgoing)
    async with trio.open_nursery() as nursery:
        assert made(config, nursery).cluster_rim.is_sealed is is_sealed


def test_the_banner_of_a_server_that_waits_for_others_says_for_how_many() -> None:
    waiting = dataclasses.replace(PLAIN, is_server=True, bootstrap_expect=3)
    [row] = [line.strip() for line in banner(waiting, OWN, is_sealed=True).splitlines() if "Leader:" in line]
    assert row == "Leader: elected when 3 servers have met"
    alone = dataclasses.replace(PLAIN, is_server=True, bootstrap=True, bootstrap_expect=1)
    assert "Leader:" not in banner(alone, OWN, is_sealed=True)
