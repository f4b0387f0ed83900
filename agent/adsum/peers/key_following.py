"""An agent that was away while the others changed the key takes up the new one by itself.

It comes back sealing with a key that they removed: it hears them, and they cannot hear it. A dial that only
another of its keys opened is the hint; hints can be forged, so members are then asked what they hold, sealed.

The rule is that of an operator's `use`: a key is taken only if everybody who was asked holds it, and whoever
cannot be asked is waited for. It is left only when somebody lacks it. While a rotation is under way all hold
both keys, so nobody moves, and no two agents can follow each other to and fro.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random

import trio

from adsum.address import Address
from adsum.gossip.membership_view import MembershipView
from adsum.logs.complaints import Complaints
from adsum.logs.faults import Faults
from adsum.net.calls import CallError
from adsum.net.gate import Gate
from adsum.net.keyring import GossipKey, Keyring
from adsum.peers.keyrings import LIST, HeldKeys, held_in
from adsum.peers.peer_rpc import AsksMembers

ASKED_MAX = 16  # by lot: thousands that come back must not each ask thousands
PAUSE_S = 3.0

TAKEN = (
    "this agent missed a change of keys: others do not hold %r, which sealed what it sent; "
    "it uses %r now, as they do; repeat `adsum keyring -remove` to be rid of the old key here too"
)
LACKED = (
    "others seal with a key that this agent lacks and do not hold the one it uses, so they cannot hear it: "
    "repeat `adsum keyring -install` and `-use` with their key, on one of them"
)
NOT_WRITTEN = (
    "the key of the others cannot be taken up, the keyring could not be written: %s; make room on its disk"
)

log = logging.getLogger("agent.keyring")


def followed(mine: Sequence[GossipKey], others: Sequence[HeldKeys]) -> GossipKey | None:
    """Of our keys, that of those who lack our primary (the first), if all the others hold it."""
    theirs = {held.keys[0] for held in _lacking(mine, others) if held.keys}
    for key in mine:
        if key.text in theirs and all(key.text in held.keys for held in others):
            return key
    return None


def _lacking(mine: Sequence[GossipKey], others: Sequence[HeldKeys]) -> list[HeldKeys]:
    return [held for held in others if mine[0].text not in held.keys]


class KeyFollowing:
    def __init__(
        self,
        keyring: Keyring,
        membership: MembershipView,
        peer_rpc: AsksMembers,
        random: Random,
        faults: Faults,
    ) -> None:
        self._keyring = keyring
        self._membership = membership
        self._peer_rpc = peer_rpc
        self._random = random
        self._faults = faults
        self._complaints = Complaints(log)

    async def run(self, gate: Gate) -> None:
        while True:
            await gate.primary_refused()
            try:
                await self.look()
            except Exception as error:  # what others answered may be anything
                self._faults.dropped("call", error)
            await trio.sleep(PAUSE_S)

    async def look(self) -> None:
        generation = self._keyring.generation
        others = await self._ask_some()
        if generation != self._keyring.generation:
            return  # an operator changed the keys meanwhile: what was answered is out of date
        mine = self._keyring.keys
        key, ours = followed(mine, others), {each.text for each in mine}
        if key is not None:
            try:
                self._keyring.use(key.text)
                log.warning(TAKEN, mine[0], key)
            except OSError as error:
                self._complaints.say("not written", NOT_WRITTEN, error)
        elif any(not ours.issuperset(held.keys[:1]) for held in _lacking(mine, others)):
            self._complaints.say("lacked", LACKED)

    async def _ask_some(self) -> list[HeldKeys]:
        """Nothing unless all of them answer."""
        present = [each.profile.address for each in self._membership.present()]
        asked = self._random.sample(present, min(len(present), ASKED_MAX))
        answers: list[HeldKeys] = []

        async def ask(address: Address) -> None:
            try:
                answers.append(held_in(await self._peer_rpc.ask(address, LIST, b"")))
            except CallError as error:
                log.debug("%s did not say which keys it holds: %s", address, error)

        async with trio.open_nursery() as nursery:
            for address in asked:
                nursery.start_soon(ask, address)
        return answers if len(answers) == len(asked) else []
