"""The kinds of checks, each loaded when the first check of its kind runs.

Together they take a twentieth of a start, h11 most of it, and few hosts have checks of more than two kinds.
They are loaded in a thread, so that the event loop is not held meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from adsum.catalog.definitions import CheckDefinition, CheckKind
from adsum.health_checks.attempt import Attempt, CheckFailed, Surroundings

Kind = Callable[[CheckDefinition, Surroundings], Attempt]

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
    match kind:
        case CheckKind.HTTP:
            from adsum.health_checks.http import HttpAttempt

            return HttpAttempt
        case CheckKind.TCP:
            from adsum.health_checks.tcp import TcpAttempt

            return TcpAttempt
        case CheckKind.UDP:
            from adsum.health_checks.udp import UdpAttempt

            return UdpAttempt
        case CheckKind.GRPC:
            from adsum.health_checks.grpc import GrpcAttempt

            return GrpcAttempt
        case CheckKind.H2PING:
            from adsum.health_checks.h2ping import H2PingAttempt

            return H2PingAttempt
        case CheckKind.SCRIPT:
            from adsum.health_checks.script import ScriptAttempt

            return ScriptAttempt
        case CheckKind.DOCKER:
            from adsum.health_checks.docker import DockerAttempt

            return DockerAttempt
        case CheckKind.OS_SERVICE:
            from adsum.health_checks.os_service import OsServiceAttempt

            return OsServiceAttempt
        case _:
            raise CheckFailed(f'a check of type "{kind}" is not one that can be run')
