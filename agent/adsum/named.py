"""`typing.NamedTuple` as the standard library means it, made in a third of its time.

The standard one compiles every annotation, to see whether it could be one: 10 µs a field with Python 3.11,
and an agent makes seventy such classes while it starts. Here annotations stay texts, as those of all other
classes do. What an agent loads takes its named tuples from here; generic ones have the standard one.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

# What `namedtuple` is told, and sets itself.
NOT_COPIED = ("__annotations__", "__module__", "__qualname__")

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Making(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            return made(name, body) if bases else super().__new__(cls, name, bases, body)

    class NamedTuple(metaclass=_Making):
        pass


def made(name: str, body: dict[str, Any]) -> type:
    fields: dict[str, Any] = body.get("__annotations__", {})
    defaults = [body[field] for field in fields if field in body]
    tuple_: type = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # type: ignore[misc]
    tuple_.__annotations__ = fields
    tuple_.__qualname__ = body["__qualname__"]
    for key, value in body.items():
        if key not in fields and key not in NOT_COPIED:
            setattr(tuple_, key, value)
    return tuple_
