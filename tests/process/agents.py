"""The complete agent as the daemon makes it, without its loop: nothing runs but what a test starts."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from random import Random

import trio

from adsum.config.build import Loaded
from adsum.config.config import Config
from adsum.logs.stream import LogCounters, LogStream
from adsum.process.first_phase import FirstPhase
from adsum.process.running import RunningAgent
from adsum.storage.memory import MemoryDisk
from adsum.storage.owed import Owed

PLAIN = Config(
    node_name="n1",
    node_id="6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01",
    advertise_address="127.0.0.1",
    serf_lan_address="127.0.0.1",
)
# It listens for gossip, on a port of the system's choice, and for nothing else.
CONFIG = dataclasses.replace(PLAIN, ports=dataclasses.replace(PLAIN.ports, serf_lan=0, http=-1, dns=-1))


def made(
    config: Config,
    nursery: trio.Nursery,
    disk: MemoryDisk | None = None,
    read_again: Callable[[], Loaded] | None = None,
) -> RunningAgent:
    loaded = Loaded(config, [])
    stream = LogStream(logging.INFO, LogCounters())
    first = FirstPhase(loaded, Owed(disk or MemoryDisk()), None, Random(0), stream)
    first.restore()
    return RunningAgent(first, nursery, read_again or (lambda: loaded), lambda _config, _tls: None)
