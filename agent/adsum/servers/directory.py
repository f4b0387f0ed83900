"""Where the other servers are. Gossip knows; tests and benches have a list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from adsum.address import Address


@dataclass(frozen=True, slots=True)
class KnownServer:
    """As it says of itself to everybody. `expect` is 0 for one that founds nothing."""

    node: str  # its uuid, as text
    address: Address
    datacenter: str = "dc1"
    expect: int = 0


class Directory(Protocol):
    def servers(self) -> Sequence[KnownServer]:
        """All that are alive, this one included or not; as of now."""

    def name_of(self, node: str) -> str:
        """What people call it."""
        ...

    def left(self) -> Collection[str]:
        """The nodes of those that said good-bye and have not come back."""
        ...
