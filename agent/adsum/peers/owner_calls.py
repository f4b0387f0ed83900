"""What agents ask each other about what is the other's own, as rows. Calls: a question, an answer.

    catalog.deregister  [service id, check id]   →  []
    catalog.retag       [service id, [tag, …]]   →  []
    catalog.output      [[check id, …]]          →  [[output or null, …]]
    catalog.owners      [after which owner]      →  [[row, …], is more]

In `owners` a row is what the asked agent has of one owner, so that another can compare.
"""

from __future__ import annotations

from adsum.cbor import BadEncoding
from adsum.named import NamedTuple
from adsum.rows import RowCodec, RowField, exactly, flag, inside, listed, number, octets, text, values

DEREGISTER, RETAG = "catalog.deregister", "catalog.retag"
OUTPUT, OWNERS = "catalog.output", "catalog.owners"

CHECKS_MAX = 256  # in one question
OWNER_BYTES = 8

Outputs = list[str | None]


class OwnerRow(NamedTuple):
    """What one agent has of one owner, in the order in which it is told."""

    owner: bytes  # the first 8 bytes of its id
    generation: int
    version: int  # the newest it has heard of
    complete_up_to: int
    digest: bytes
    items: int
    size_bytes: int
    confirmed_ms: int  # since it last knew to have all; -1: never
    is_complete: bool


def _outputs(outputs: list[object]) -> Outputs:
    if not all(each is None or type(each) is str for each in outputs):
        raise BadEncoding("outputs that are none")
    return outputs  # type: ignore[return-value]  # looked at above


_OWNER_ROW = RowCodec(
    OwnerRow,
    *(exactly("owner", OWNER_BYTES), number("generation"), number("version"), number("complete_up_to")),
    *(octets("digest"), number("items"), number("size_bytes"), number("confirmed_ms"), flag("is_complete")),
)
DEREGISTRATION: RowCodec[tuple[str, str]] = RowCodec(values, text("service_id"), text("check_id"))
RETAGGING: RowCodec[tuple[str, tuple[str, ...]]] = RowCodec(
    values, text("service_id"), listed("tags", text(""))
)
WANTED_OUTPUTS: RowCodec[tuple[tuple[str, ...]]] = RowCodec(values, listed("check_ids", text(""), CHECKS_MAX))
TOLD_OUTPUTS: RowCodec[tuple[Outputs]] = RowCodec(values, RowField("outputs", list, _outputs))
AFTER_OWNER: RowCodec[tuple[bytes]] = RowCodec(values, octets("after"))
TOLD_OWNERS: RowCodec[tuple[tuple[OwnerRow, ...], bool]] = RowCodec(
    values, listed("rows", inside("", _OWNER_ROW)), flag("is_more")
)
DONE = RowCodec(values).bytes_of()
