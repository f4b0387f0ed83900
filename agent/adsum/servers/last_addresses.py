"""Where the other members were last found, for when gossip does not know.

Who is a member is decided by the quorum, and gossip may be wrong about all of them while every connection
works. So what it says is taken, and what was found out is kept: in memory, and in a file beside the log, for
a start at which gossip has met nobody yet. Losing the file costs nothing but that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

import cbor2
import trio

from adsum.address import Address
from adsum.cbor import BadEncoding, strict_loads
from adsum.consensus import admission
from adsum.servers.directory import Directory, KnownServer
from adsum.storage.files import DiskFull, Folder, ReadFailed, read_whole, write_whole

FILE = "addresses"
SAVE_S = 10.0

log = logging.getLogger("raft")


class LastAddresses:
    def __init__(self, folder: Folder, directory: Directory, members: Callable[[], Collection[str]]) -> None:
        """`members`: the nodes of the configuration, of whom alone anything is kept."""
        self._folder = folder
        self._directory = directory
        self._members = members
        self._found = _read(folder)
        self._saved = dict(self._found)

    def known(self, node: str) -> KnownServer | None:
        """As gossip knows it now."""
        return next((server for server in self._directory.servers() if server.node == node), None)

    def addresses_of(self, node: str) -> list[Address]:
        """Where to look for it, the likeliest first."""
        server = self.known(node)
        return admission.places_of(server.address if server is not None else None, self._found.get(node))

    def found(self, node: str, address: Address) -> None:
        """It answered there, and said who it is."""
        self._found[node] = address

    async def run(self) -> None:
        """Keeps the file as what is known."""
        while True:
            await trio.sleep(SAVE_S)
            await self.save()

    async def save(self) -> None:
        members = self._members()
        if not members:
            return
        known = {server.node: server.address for server in self._directory.servers()}
        wanted = {node: self._found.get(node) or known.get(node) for node in sorted(members)}
        self._found = {node: address for node, address in wanted.items() if address is not None}
        if self._found == self._saved:
            return
        found = dict(self._found)
        content = cbor2.dumps([[node, *address] for node, address in found.items()])
        try:
            await trio.to_thread.run_sync(write_whole, self._folder, FILE, content)
        except DiskFull:
            return  # it is tried again
        self._saved = found


def _read(folder: Folder) -> dict[str, Address]:
    if FILE not in folder.names():
        return {}
    try:
        rows = strict_loads(read_whole(folder, FILE))
    except (BadEncoding, ReadFailed):
        rows = None
    found = {}
    for row in rows if isinstance(rows, list) else [rows]:
        match row:
            case [str(node), str(host), int(port)]:
                found[node] = Address(host, port)
            case _:
                log.warning("the addresses of other servers that were saved cannot be read")
                return {}
    return found
