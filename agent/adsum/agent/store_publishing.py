"""What the store holds for the catalog, on its way there: on servers only.

The state machine decides numbers and versions; here they get the bytes that go with them. A check is two
items, for what it says is published apart from what it is.

Copies compare generation and version, so the servers' have to be the greatest that anybody has. A clock could
not see to that: that of the first who registers something may be days off, a cluster that is founded anew has
another, and agents bring along what an earlier one said. So the offset of revisions counts, which rises
when servers were restored or recovered, and whatever later one others have is outdone.
"""

from __future__ import annotations

from collections.abc import Iterable

from adsum.catalog import records
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.replication.items import COUNTER_MAX, Item
from adsum.catalog.replication.store_news import StoreNews
from adsum.external import ExternalKind
from adsum.store.commands import RenewExternal
from adsum.store.external import ExternalRow, ExternalTable, Touched

OFFSET_SHIFT = 21  # offsets grow by at least that many bits; a generation has fewer than a revision
STATUSES = {status.value: status for status in CheckStatus}


class StorePublishing:
    def __init__(self) -> None:
        self._table: ExternalTable | None = None  # it is another one when a snapshot was read
        self._standing = (0, 0)  # generation and version that were published last

    def news(self, table: ExternalTable, offset: int = 0, *, is_leader: bool) -> StoreNews | None:
        """Since the last look; None if there are none. `offset`: of revisions."""
        standing = standing_of(table, offset)
        if standing == self._standing:
            return None
        touched = table.take_touched()
        is_whole = touched is None or table is not self._table or standing[0] != self._standing[0]
        self._table, self._standing = table, standing
        if is_whole or touched is None:
            items = [item for row in table.rows.values() for item in _items_of(row)]
        else:
            items = list(_changed(table, touched))
        ordered = tuple(sorted(items, key=lambda item: item.version))
        return StoreNews(*standing, ordered, is_whole=is_whole, tells=is_leader)


def standing_of(table: ExternalTable, offset: int) -> tuple[int, int]:
    """Generation and version as they are published."""
    generation = table.generation + (offset >> OFFSET_SHIFT) if table.generation else 0
    return generation, table.version


def outdoing(table: ExternalTable, offset: int, told: tuple[int, int]) -> RenewExternal | None:
    """For a leader that has applied all there is: what makes its own the greatest again. `told`: what others
    were heard to have."""
    generation = told[0] + 1
    if told <= standing_of(table, offset) or generation >= COUNTER_MAX:
        return None
    return RenewExternal(max(generation - (offset >> OFFSET_SHIFT), table.generation + 1))


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
