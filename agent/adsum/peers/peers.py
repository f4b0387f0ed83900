"""All that agents ask each other beside gossip, put together: the daemon and the tests of endpoints make it
here, so that a question that is added is asked and answered by both."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from adsum.agent.commands import Submit
from adsum.agent.core import AgentCore
from adsum.net.keyring import Keyring
from adsum.now import Now
from adsum.peers.keyrings import INSTALL, LIST, REMOVE, USE, Keyrings
from adsum.peers.outputs import Outputs
from adsum.peers.owner_forwarding import OwnerForwarding
from adsum.peers.peer_handlers import PeerHandlers
from adsum.peers.peer_rpc import PeerRpc
from adsum.topics import WaitsOnTopics


class Peers:
    def __init__(
        self,
        core: AgentCore,
        rpc: PeerRpc,
        keyring: Keyring,
        watches: WaitsOnTopics,
        submit: Submit,
        clock: Callable[[], Now],
        *,
        seals_outgoing: bool,
    ) -> None:
        self.rpc = rpc
        self.keyrings = Keyrings(keyring, core.cluster.membership, rpc, seals_outgoing=seals_outgoing)
        mine = PeerHandlers(core.cluster, core.published, core.own, submit, clock)
        self.owners = OwnerForwarding(core.cluster, core.view, mine, rpc, watches, submit)
        self.outputs = Outputs(core.view, self.owners)
        mine.register(rpc)
        for method in (LIST, INSTALL, USE, REMOVE):
            rpc.register(method, partial(self.keyrings.answer, method), is_change=method != LIST)
