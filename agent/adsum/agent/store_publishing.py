"""What the store holds for the catalog, on its way there: on servers only.

The state machine decides numbers and versions; here they get the bytes that go with them. A check is two
items, for what it says is published apart from what it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from adsum.catalog import records
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.replication.items import Item
from adsum.catalog.replication.store_news import StoreNews
from adsum.external import ExternalKind
from adsum.store.external import ExternalRow, ExternalTable, Touched

STATUSES = {status.value: status for status in CheckStatus}


class StorePublishing:
    def __init__(self) -> None:
        self._table: ExternalTable | None = None  # it is another one when a snapshot was read
        self._standing = (0, 0)  # generation and version that were published last

    def news(self, table: ExternalTable, *, is_leader: bool) -> StoreNews | None:
        """Since the last look; None if there are none."""
        standing = table.generation, table.version
        if standing == self._standing:
            return None
        touched = table.take_touched()
        is_whole = touched is None or table is not self._table or table.generation != self._standing[0]
        self._table, self._standing = table, standing
        if is_whole or touched is None:
            items = [item for row in table.rows.values() for item in _items_of(row)]
        else:
            items = list(_changed(table, touched))
        ordered = tuple(sorted(items, key=lambda item: item.version))
        return StoreNews(*standing, ordered, is_whole=is_whole, tells=is_leader)


def _changed(table: ExternalTable, touched: dict[int, Touched]) -> Iterable[Item]:
    for number, (version, key) in touched.items():
        if key is None:
            yield Item(number, version, None)
        else:
            yield from (item for item in _items_of(table.rows[key]) if item.number == number)


def _items_of(row: ExternalRow) -> Iterable[Item]:
    item = row.item
    yield Item(row.number, row.version, item.row)
    if item.kind is ExternalKind.CHECK:
        # Of a status that only a later version knows nothing good is said.
        status = STATUSES.get(item.status, CheckStatus.CRITICAL)
        said = records.encode_external_state(row.number, status, item.output)
        yield Item(row.state_number, row.state_version, said)
