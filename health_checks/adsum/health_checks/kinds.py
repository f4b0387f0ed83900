"""The kinds of checks, each loaded when the first check of its kind runs.

Together they take a twentieth of a start, h11 most of it, and few hosts have checks of more than two kinds.
They are loaded in a thread, so that the event loop is not held meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import trio

from adsum.catalog.definitions import CheckDefinition, CheckKind
from adsum.health_checks.attempt import Attempt, CheckFailed, Surroundings

Kind = Callable[[CheckDefinition, Surroundings], Attempt]

CLASSES = {
    CheckKind.HTTP: "http.HttpAttempt",
    CheckKind.TCP: "tcp.TcpAttempt",
    CheckKind.UDP: "udp.UdpAttempt",
    CheckKind.GRPC: "grpc.GrpcAttempt",
    CheckKind.H2PING: "h2ping.H2PingAttempt",
    CheckKind.SCRIPT: "script.ScriptAttempt",
    CheckKind.DOCKER: "docker.DockerAttempt",
    CheckKind.OS_SERVICE: "os_service.OsServiceAttempt",
}
LOADED: dict[CheckKind, Kind] = {}
LOADING = trio.Lock()  # a thousand checks that begin at once need one thread, not forty


async def get(kind: CheckKind) -> Kind:
    """Raises CheckFailed for a kind that cannot be run."""
    if kind not in LOADED:
        async with LOADING:
            if kind not in LOADED:
                LOADED[kind] = await trio.to_thread.run_sync(load, kind)
    return LOADED[kind]


def load(kind: CheckKind) -> Kind:
    if kind not in CLASSES:
        raise CheckFailed(f'a check of type "{kind}" is not one that can be run')
    module, name = CLASSES[kind].split(".")
    loaded: Kind = getattr(import_module(f"adsum.health_checks.{module}"), name)
    return loaded
