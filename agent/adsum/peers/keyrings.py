"""The keyrings of all present members, listed and changed together, so that a cluster's key can be changed.

Each member answers for its own keyring, and is asked over a sealed connection or not at all. A change is made
only when it can cut nobody off: a key is used once every present member holds it, and removed once it is
primary nowhere; whoever cannot be asked counts as one that might be cut off. A round that failed half way is
simply repeated, for every step may be done twice.

Keys are in no log, no error and no `repr`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import cbor2
import trio

from adsum.address import Address
from adsum.gossip.membership_view import MembershipView
from adsum.logs.system_errors import told
from adsum.net.calls import CallError, Declined
from adsum.net.framing import MalformedFrame, array
from adsum.net.introduction import Peer
from adsum.net.keyring import GossipKey, Keyring, KeyringError, UnknownKey
from adsum.peers.peer_rpc import AsksMembers

LIST, INSTALL, USE, REMOVE = "keyring.list", "keyring.install", "keyring.use", "keyring.remove"
NOT_SEALED, REFUSED = "not sealed", "keyring"
ASKED_AT_ONCE_MAX = 32

OUTGOING_OFF = "keys travel only sealed: set encrypt_verify_outgoing to true, on every agent, and try again"
LACKS = "it does not hold this key yet: install it, and try again"
IS_PRIMARY = "this is its primary key: use another one first"


class RoundFailed(Exception):
    """Not every member did as it was asked, or would survive it; the sentences say why, by member."""

    def __init__(self, failures: Mapping[str, str], members: int) -> None:
        super().__init__(f"{len(failures)} of {members} members failed")
        self.failures = failures
        self.members = members


class HeldKeys:
    """What one member holds, the primary first. A class, so that no `repr` shows them."""

    __slots__ = ("keys",)

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys


class Keyrings:
    def __init__(
        self, keyring: Keyring, membership: MembershipView, peer_rpc: AsksMembers, *, seals_outgoing: bool
    ) -> None:
        self._keyring = keyring
        self._membership = membership
        self._peer_rpc = peer_rpc
        self._seals_outgoing = seals_outgoing
        self._one_at_a_time = trio.Lock()

    @property
    def is_encrypted(self) -> bool:
        return bool(self._keyring)

    # For all: each raises `KeyringError` when nobody was asked, and `RoundFailed`.

    async def gather(self) -> dict[str, HeldKeys]:
        """By the names of members."""
        if not self._keyring:
            raise KeyringError("Keyring is empty (encryption not enabled)")
        answers = await self._round(LIST, b"")
        return {name: held_in(answer) for name, answer in answers.items()}

    async def change(self, method: str, text: str) -> None:
        """`INSTALL`, `USE` or `REMOVE`."""
        if not self._keyring:
            raise KeyringError("No keyring to modify (encryption not enabled)")
        key = GossipKey.from_text(text).text
        async with self._one_at_a_time:
            if method != INSTALL:
                held = await self.gather()
                if method == USE:
                    failures = {name: LACKS for name, its in held.items() if key not in its.keys}
                else:
                    failures = {name: IS_PRIMARY for name, its in held.items() if its.keys[:1] == (key,)}
                if failures:
                    raise RoundFailed(failures, len(held))
            await self._round(method, key.encode())

    async def _round(self, method: str, body: bytes) -> dict[str, bytes]:
        """Others first: what fails there is known before this agent has changed."""
        answers: dict[str, bytes] = {}
        failures: dict[str, str] = {}
        present = [each.profile for each in self._membership.present()]
        if present and not self._seals_outgoing:
            raise KeyringError(OUTGOING_OFF)
        turns = trio.CapacityLimiter(ASKED_AT_ONCE_MAX)

        async def ask(name: str, address: Address) -> None:
            async with turns:
                try:
                    answers[name] = await self._peer_rpc.ask(address, method, body)
                except CallError as error:
                    failures[name] = str(error)

        async with trio.open_nursery() as nursery:
            for profile in present:
                nursery.start_soon(ask, profile.name, profile.address)
        own_name = self._membership.me.name
        if not failures:
            try:
                answers[own_name] = self._do(method, body)
            except Declined as error:
                failures[own_name] = str(error)
        if failures:
            raise RoundFailed(failures, len(present) + 1)
        return answers

    # For this member.

    async def answer(self, method: str, caller: Peer, body: bytes) -> bytes:
        """Whoever asks holds a key of ours, or a certificate we trust; either way the way is sealed."""
        if not caller.is_authenticated:
            raise Declined(NOT_SEALED, "keys travel only sealed, and this connection is not")
        return self._do(method, body)

    def _do(self, method: str, body: bytes) -> bytes:
        text = body.decode(errors="replace")
        try:
            if method == INSTALL:
                self._keyring.install(text)
            elif method == USE:
                self._keyring.use(text)
            elif method == REMOVE:
                with suppress(UnknownKey):  # one that it does not hold is gone already
                    self._keyring.remove(text)
        except KeyringError as error:
            raise Declined(REFUSED, str(error)) from None
        except OSError as error:
            raise Declined(REFUSED, f"its keyring could not be written: {told(error)}") from None
        return cbor2.dumps([key.text for key in self._keyring.keys])


def held_in(answer: bytes) -> HeldKeys:
    try:
        keys = array(answer)
    except MalformedFrame:
        keys = []
    return HeldKeys(tuple(key for key in keys if isinstance(key, str)))
