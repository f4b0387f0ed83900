"""What a client agent has for keys, before it has spoken to anybody."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from adsum.address import Address
from adsum.agent.forwarding import Forwarding
from adsum.agent.known_servers import KnownServers
from adsum.dedup import WriteNumbers
from adsum.logs.faults import Faults
from adsum.now import Now
from adsum.peers.client_keys import ClientKeys
from tests.net.support import gate


def forwarding_client(*, saved: Mapping[bytes, Address] | None = None) -> ClientKeys:
    core = Forwarding(KnownServers(), saved or {}, WriteNumbers("n9", 1), Random(1))
    return ClientKeys(core, gate(), Random(1), lambda: Now(0, 0), lambda _save: None, Faults())
