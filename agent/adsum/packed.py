"""What is read from MessagePack, by type: its decoder is made when the first one comes.

To make one, msgspec works out what the type and all in it look like, from their annotations. That takes as
long as loading their module, and most client agents never read what they could ask servers for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from msgspec.msgpack import Decoder

Read = TypeVar("Read")


@overload
def decoder(of: type[Read]) -> Callable[[bytes], Read]: ...
@overload
def decoder(of: Any) -> Callable[[bytes], Any]: ...
def decoder(of: Any) -> Callable[[bytes], Any]:
    """`of` is a type, or several of them that are told apart by their tags."""
    made: Callable[[bytes], Any] | None = None

    def decode(encoded: bytes) -> Any:
        nonlocal made
        if made is None:
            made = Decoder(of).decode
        return made(encoded)

    return decode
