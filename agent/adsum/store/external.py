"""Nodes without an agent: which there are, with their services and checks.

The servers publish them in the catalog as one owner, each from its own state machine, and all say the same:
so the numbers and versions by which copies are compared are decided here, and are the same on every server. A
check has two numbers, for what it says is published apart from what it is.

Names of nodes are compared without regard to case. What is refused changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple
from zlib import crc32

from msgspec import Struct
from msgspec.msgpack import Encoder
from msgspec.structs import replace

from adsum.external import ExternalItem, ExternalKind

ITEM_OVERHEAD_BYTES = 300
SERF_HEALTH, CRITICAL = "serfHealth", "critical"
TOUCHED_MAX = 10_000  # past it whoever publishes looks at everything

NO_NODE = "Missing node registration"
SERVICE_MISSING = "Missing service registration"
NO_SERVICE = f'failed inserting check: {SERVICE_MISSING} on node "{{}}"'
NAME_TAKEN = (
    'failed inserting node: Error while renaming Node ID: "{}": Node name {}'
    " is reserved by node {} with name {}"
)

_encode = Encoder().encode

ItemKey = tuple[str, int, str]  # the node's folded name, the kind, the id


class Touched(NamedTuple):
    version: int
    key: ItemKey | None  # None: nothing stands there any more


class ExternalRow(Struct, frozen=True, gc=False, array_like=True):
    item: ExternalItem
    number: int  # in the catalog, while it stands
    version: int  # of the owner, when this was written
    state_number: int = 0  # of a check: what it says
    state_version: int = 0


class ExternalStanding(Struct, frozen=True, array_like=True):
    """What is not told by the rows."""

    generation: int
    version: int
    revision: int
    next_number: int
    free: list[int]


class ExternalTable:
    def __init__(self) -> None:
        self.rows: dict[ItemKey, ExternalRow] = {}
        self.generation = 0  # begins as the wall clock of the first registration; 0: there never was one
        self.version = 0  # of the owner; each number that changes raises it by one
        self.revision = 0  # of the last change
        self.next_number = 0
        self.free: list[int] = []  # a heap
        self.bytes_total = 0
        self._sum = 0  # over all rows: servers compare it
        # Since whoever publishes looked last: numbers, with what stands there now. No part of the state.
        self.touched: dict[int, Touched] = {}
        self.is_all_touched = True
        self._on_node: dict[str, dict[ItemKey, None]] = {}
        self._by_node_id: dict[str, str] = {}  # folded name

    def __len__(self) -> int:
        return len(self.rows)

    # Questions.

    @property
    def places(self) -> int:
        """Numbers that are given out."""
        return self.next_number - len(self.free)

    def get(self, node: str, kind: ExternalKind, id_: str = "") -> ExternalItem | None:
        row = self.rows.get(_key(node, kind, id_))
        return row.item if row is not None else None

    def node_of(self, item: ExternalItem) -> ExternalItem | None:
        """By its id, if it says one, whatever it is called."""
        name = self._by_node_id.get(item.node_id) if item.node_id else item.node
        return self.get(name, ExternalKind.NODE) if name is not None else None

    def renamed_from(self, item: ExternalItem) -> str | None:
        """The folded name of the node that would go if this one were registered."""
        known_as = self._by_node_id.get(item.node_id) if item.node_id else None
        return known_as if known_as != _folded(item.node) else None

    def part_for(self, items: Sequence[ExternalItem]) -> ExternalTable:
        """With what these items are about and stand on, to try on it what they would do."""
        wanted: dict[ItemKey, None] = {}
        for item in items:
            names = [item.node, self.renamed_from(item) or item.node]
            keys = [_key(name, ExternalKind.NODE, "") for name in names]
            keys.append(_key(item.node, ExternalKind.SERVICE, item.service_id))
            keys.append(_key(item.node, ExternalKind.CHECK, SERF_HEALTH))
            keys.append(_key(item.node, item.kind, item.id))
            wanted |= dict.fromkeys(keys)
        part = ExternalTable()
        part.load([self.rows[key] for key in wanted if key in self.rows])
        part.next_number = self.next_number  # nobody sees those that are given out there
        return part

    def of_node(self, node: str) -> list[ExternalItem]:
        """The node first, then its services, then its checks."""
        keys = sorted(self._on_node.get(_folded(node), ()))
        return [self.rows[key].item for key in keys]

    def why_not(self, items: tuple[ExternalItem, ...]) -> str:
        """In Consul's words; empty if they can be registered together."""
        nodes = {_folded(item.node) for item in items if item.kind is ExternalKind.NODE}
        services = {(_folded(item.node), item.id) for item in items if item.kind is ExternalKind.SERVICE}
        for item in items:
            node = _folded(item.node)
            if item.kind is ExternalKind.NODE:
                if refusal := self._why_not_named(item):
                    return refusal
            elif node not in nodes and node not in self._on_node:
                return NO_NODE
            elif item.kind is ExternalKind.CHECK and item.service_id:
                is_there = (node, item.service_id) in services
                if not is_there and self.get(node, ExternalKind.SERVICE, item.service_id) is None:
                    return NO_SERVICE.format(item.node)
        return ""

    # Changes.

    def put(self, item: ExternalItem, revision: int, wall_ms: int) -> bool:
        """Whether it changed anything. `why_not` was asked before."""
        key = _key(item.node, item.kind, item.id)
        before = self.rows.get(key)
        if before is not None:
            item = replace(item, node=before.item.node)  # as it was written first
        create = before.item.create if before is not None else revision
        if item.kind is ExternalKind.NODE:
            renamed = self._rename(item, revision)
            if before is None and renamed is not None:
                create = renamed.create
            if before is not None and before.item.node_id != item.node_id:
                self._by_node_id.pop(before.item.node_id, None)
            if item.node_id:
                self._by_node_id[item.node_id] = key[0]
        if before is not None and _is_same(before.item, item):
            return False
        self.generation = self.generation or max(1, wall_ms)
        item = replace(item, create=create, modify=revision)
        if before is None:
            number = self._number()
            state_number = self._number() if item.kind is ExternalKind.CHECK else 0
            row = ExternalRow(item, number, self._touch(number, key), state_number)
            self._on_node.setdefault(key[0], {})[key] = None
        else:
            self._count(key, before, -1)
            row = replace(before, item=item)
            if before.item.row != item.row:
                row = replace(row, version=self._touch(row.number, key))
        is_said_anew = before is None or _said(before.item) != _said(item)
        if item.kind is ExternalKind.CHECK and is_said_anew:
            row = replace(row, state_version=self._touch(row.state_number, key))
        self.rows[key] = row
        self._count(key, row, 1)
        self.revision = revision
        return True

    def remove(self, node: str, service_id: str, check_id: str, revision: int) -> bool:
        """One check, one service with its checks, or all of a node."""
        folded = _folded(node)
        if check_id:
            keys = [_key(node, ExternalKind.CHECK, check_id)]
        elif service_id:
            keys = [_key(node, ExternalKind.SERVICE, service_id)]
            keys += [key for key in self._on_node.get(folded, ()) if self._is_check_of(key, service_id)]
        else:
            keys = list(self._on_node.get(folded, ()))
        present = [key for key in keys if key in self.rows]
        for key in present:
            self._take(key)
        if present:
            self.revision = revision
        return bool(present)

    def begin_anew(self, generation: int) -> None:
        """Changes no record and raises the version: an owner without one is published to nobody."""
        self.generation = generation
        self.version += 1
        self.is_all_touched = True

    # For whoever publishes.

    def take_touched(self) -> dict[int, Touched] | None:
        """What changed since the last look; None: perhaps everything."""
        touched, self.touched = self.touched, {}
        is_all, self.is_all_touched = self.is_all_touched, False
        return None if is_all else touched

    # For the whole state.

    def standing(self) -> tuple[int, ...]:
        """Equal where all that decides is."""
        counts = len(self.rows), len(self.free), self.next_number
        return (*counts, self.generation, self.version, self.revision, self._sum)

    def counted(self) -> ExternalStanding:
        return ExternalStanding(
            self.generation, self.version, self.revision, self.next_number, self.free.copy()
        )

    def load_counted(self, standing: ExternalStanding) -> None:
        self.generation, self.version, self.revision = (
            standing.generation,
            standing.version,
            standing.revision,
        )
        self.next_number, self.free = standing.next_number, standing.free

    def load(self, rows: list[ExternalRow]) -> None:
        """In the order in which they were written."""
        for row in rows:
            key = _key(row.item.node, row.item.kind, row.item.id)
            self.rows[key] = row
            self._on_node.setdefault(key[0], {})[key] = None
            self._count(key, row, 1)
            if row.item.kind is ExternalKind.NODE and row.item.node_id:
                self._by_node_id[row.item.node_id] = key[0]

    # Inside.

    def _why_not_named(self, item: ExternalItem) -> str:
        """A name that another id has is taken over, unless something says that this one is well."""
        holder = self.get(item.node, ExternalKind.NODE)
        if not item.node_id or holder is None or holder.node_id == item.node_id:
            return ""
        health = self.get(item.node, ExternalKind.CHECK, SERF_HEALTH)
        is_well = health is not None and health.status != CRITICAL
        if not is_well or (not holder.node_id and self.renamed_from(item) is None):
            return ""
        return NAME_TAKEN.format(item.node_id, item.node, holder.node_id, holder.node)

    def _rename(self, item: ExternalItem, revision: int) -> ExternalItem | None:
        """What was on a node under its old name does not come along: as in Consul. The node as it was."""
        known_as = self.renamed_from(item)
        if known_as is None:
            return None
        before = self.get(known_as, ExternalKind.NODE)
        self.remove(known_as, "", "", revision)
        return before

    def _is_check_of(self, key: ItemKey, service_id: str) -> bool:
        return key[1] == ExternalKind.CHECK and self.rows[key].item.service_id == service_id

    def _take(self, key: ItemKey) -> None:
        row = self.rows.pop(key)
        self._count(key, row, -1)
        for number in _numbers(row):
            self._touch(number, None)
            heappush(self.free, number)
        on_node = self._on_node[key[0]]
        del on_node[key]
        if not on_node:
            del self._on_node[key[0]]
        if row.item.kind is ExternalKind.NODE and self._by_node_id.get(row.item.node_id) == key[0]:
            del self._by_node_id[row.item.node_id]

    def _count(self, key: ItemKey, row: ExternalRow, more: int) -> None:
        self.bytes_total += more * bytes_of(row.item)
        self._sum += more * crc32(_encode((key, row)))

    def _number(self) -> int:
        if self.free:
            return heappop(self.free)
        self.next_number += 1
        return self.next_number

    def _touch(self, number: int, key: ItemKey | None) -> int:
        self.version += 1
        if len(self.touched) < TOUCHED_MAX:
            self.touched[number] = Touched(self.version, key)
        else:
            self.is_all_touched = True
        return self.version


def _numbers(row: ExternalRow) -> Iterator[int]:
    yield row.number
    if row.item.kind is ExternalKind.CHECK:
        yield row.state_number


def _key(node: str, kind: ExternalKind, id_: str) -> ItemKey:
    return (_folded(node), kind, id_)


def _folded(node: str) -> str:
    return node.lower()


def _is_same(one: ExternalItem, other: ExternalItem) -> bool:
    return replace(one, create=0, modify=0) == replace(other, create=0, modify=0)


def _said(item: ExternalItem) -> tuple[str, str]:
    return item.status, item.output


def bytes_of(item: ExternalItem) -> int:
    texts = item.node, item.id, item.node_id, item.service_id, item.status, item.output
    return ITEM_OVERHEAD_BYTES + len(item.row) + sum(map(len, texts))
