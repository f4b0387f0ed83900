"""The catalog as one agent sees it: every owner's nodes, services and checks, joined and kept in order.

All reads (DNS, health, catalog) come from here, synchronously and from memory; nobody waits for consensus.
It is written only by the composite core, on behalf of the owners: each `put` or `remove` is one visible
change, and `changes()` tells which topics it moved. Node liveness is derived: it is put here as the
serfHealth check by whoever knows who is present, and never stored by an owner.

Lists are ordered as Consul orders them: nodes by name, instances by (node, service id), checks by
(node, check id). Names of nodes and services compare without case; ids of services and checks are exact.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.indexes import Family, Indexes
from adsum.catalog.model import SERF_HEALTH, Check, Node, Service
from adsum.now import Now
from adsum.topics import Topic

Key = TypeVar("Key", str, tuple[str, str])
Item = TypeVar("Item")
Value = TypeVar("Value")

ANY_STATE = "any"
NO_AGENT = ""  # owns a node that somebody registered in the store
SEVERITY = {CheckStatus.PASSING: 0, CheckStatus.WARNING: 1, CheckStatus.CRITICAL: 2}
SERF_HEALTH_NAME = "Serf Health Status"
ALIVE_OUTPUT = "Agent alive and reachable"
FAILED_OUTPUT = "Agent not live or unreachable"


class Row(Generic[Value]):
    """One published value with its indexes. `renderings` is a place for the rim to keep this row's bytes:
    a row is replaced, never changed, so they stay true for as long as the row is seen. No core reads them."""

    __slots__ = ("create_index", "modify_index", "renderings", "value")

    def __init__(self, value: Value, create_index: int, modify_index: int) -> None:
        self.value = value
        self.create_index = create_index
        self.modify_index = modify_index
        self.renderings: dict[str, bytes] = {}


class SortedTable(Generic[Key, Item]):
    """A mapping that is walked in key order; replacing an item costs no sorting."""

    __slots__ = ("_items", "_keys")

    def __init__(self) -> None:
        self._items: dict[Key, Item] = {}
        self._keys: list[Key] = []

    def get(self, key: Key) -> Item | None:
        return self._items.get(key)

    def put(self, key: Key, item: Item) -> None:
        if key not in self._items:
            insort(self._keys, key)
        self._items[key] = item

    def pop(self, key: Key) -> Item | None:
        item = self._items.pop(key, None)
        if item is not None:
            del self._keys[bisect_left(self._keys, key)]
        return item

    def __iter__(self) -> Iterator[Item]:
        items = self._items
        return (items[key] for key in self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: Key) -> bool:
        return key in self._items


class CatalogHost:
    """A node with everything on it."""

    __slots__ = ("checks", "early_checks", "instances", "node", "node_checks", "owner")

    def __init__(self, owner: str, node: Row[Node]) -> None:
        self.owner = owner  # uuid of the agent that may change what is here, or NO_AGENT
        self.node = node
        self.instances: SortedTable[str, Instance] = SortedTable()  # by service id
        self.checks: SortedTable[str, Row[Check]] = SortedTable()  # all of them, by check id
        self.node_checks: SortedTable[str, Row[Check]] = SortedTable()  # those that judge every service here
        # By the service id that is not here yet.
        self.early_checks: dict[str, SortedTable[str, Row[Check]]] = {}

    @property
    def name(self) -> str:
        return self.node.value.name

    def checks_of(self, service_id: str) -> SortedTable[str, Row[Check]]:
        """Where those of a service are, that may not be here yet; without one those of the node."""
        if not service_id:
            return self.node_checks
        instance = self.instances.get(service_id)
        return instance.checks if instance else self.early_checks.setdefault(service_id, SortedTable())


class Instance:
    """A service on a node, with the checks that judge it."""

    __slots__ = ("checks", "host", "service")

    def __init__(self, host: CatalogHost, service: Row[Service]) -> None:
        self.host = host
        self.service = service
        # Its own; the node's are in host.node_checks.
        self.checks: SortedTable[str, Row[Check]] = SortedTable()

    def all_checks(self) -> Iterator[Row[Check]]:
        """The node's first, then its own, as health answers list them."""
        yield from self.host.node_checks
        yield from self.checks

    @property
    def status(self) -> CheckStatus:
        worst = worst_status(row.value.status for row in self.host.node_checks)
        return worst_status((worst, *(row.value.status for row in self.checks)))


def worst_status(statuses: Iterable[CheckStatus]) -> CheckStatus:
    return max(statuses, key=SEVERITY.__getitem__, default=CheckStatus.PASSING)


class View:
    def __init__(self, now: Now, tag: int) -> None:
        self.indexes = Indexes(now.wall_ms, tag)
        self._hosts: SortedTable[str, CatalogHost] = SortedTable()  # by lower-case node name
        self._instances: dict[str, SortedTable[tuple[str, str], Instance]] = {}  # by lower-case service name
        self._at_address: dict[str, SortedTable[tuple[str, str], CatalogHost | Instance]] = {}

    # What anyone may read.

    @property
    def index(self) -> int:
        """Moves on every visible change; answers kept for an index are true while it stands."""
        return self.indexes.current

    def nodes(self) -> Iterator[CatalogHost]:
        return iter(self._hosts)

    def node(self, name: str) -> CatalogHost | None:
        return self._hosts.get(name.lower())

    def service_names(self) -> list[str]:
        """As their first instance spells them, in order."""
        return sorted(next(iter(group)).service.value.name for group in self._instances.values())

    def instances(self, service_name: str) -> Sequence[Instance]:
        group = self._instances.get(service_name.lower())
        return tuple(group) if group is not None else ()

    def checks(self) -> Iterator[tuple[CatalogHost, Row[Check]]]:
        for host in self._hosts:
            for row in host.checks:
                yield host, row

    def at_address(self, address: str) -> Iterator[CatalogHost | Instance]:
        """Who answers at an IP address: nodes first, then instances, each in order."""
        found = tuple(self._at_address.get(address, ()))
        yield from (each for each in found if isinstance(each, CatalogHost))
        yield from (each for each in found if isinstance(each, Instance))

    # What the composite core writes. Each is one change; `changes()` takes the topics it moved. Those that an
    # owner publishes say whether anything is another than before.

    def changes(self) -> tuple[Topic, ...]:
        return self.indexes.take_touched()

    def put_node(self, now: Now, owner: str, node: Node) -> bool:
        host = self.node(node.name)
        if host is not None and host.node.value == node:
            return False
        index = self.indexes.advance(now.wall_ms)
        if host is None:
            host = CatalogHost(owner, Row(node, index, index))
            self._hosts.put(node.name.lower(), host)
        else:
            self._unlist_address(host.node.value.address, host)
            host.node = Row(node, host.node.create_index, index)
        self._list_address(node.address, host)
        self._touch_host(host)
        return True

    def remove_node(self, now: Now, name: str) -> None:
        host = self.node(name)
        if host is None:
            return
        for instance in list(host.instances):
            self.remove_service(now, name, instance.service.value.service_id)
        for row in list(host.checks):
            self.remove_check(now, name, row.value.check_id)
        self.indexes.advance(now.wall_ms)
        self._hosts.pop(name.lower())
        self._unlist_address(host.node.value.address, host)
        self.indexes.touch(Topic(Family.NODES))
        self.indexes.retire(Topic(Family.NODE, name.lower()))
        self.indexes.retire(Topic(Family.NODE_CHECKS, name.lower()))

    def set_presence(self, now: Now, name: str, *, is_present: bool) -> None:
        status = CheckStatus.PASSING if is_present else CheckStatus.CRITICAL
        output = ALIVE_OUTPUT if is_present else FAILED_OUTPUT
        check = Check(check_id=SERF_HEALTH, name=SERF_HEALTH_NAME, status=status, output=output)
        self.put_check(now, name, check)

    def put_service(self, now: Now, node_name: str, service: Service) -> bool:
        host = self._host(node_name)
        instance = host.instances.get(service.service_id)
        if instance is not None and instance.service.value == service:
            return False
        index = self.indexes.advance(now.wall_ms)
        before = instance.service.value if instance is not None else None
        if instance is None:
            instance = Instance(host, Row(service, index, index))
            host.instances.put(service.service_id, instance)
            early = host.early_checks.pop(service.service_id, None)
            instance.checks = early if early is not None else instance.checks
        else:
            self._unlist_instance(instance)
            instance.service = Row(service, instance.service.create_index, index)
        self._list_instance(instance)
        self._touch_instance(instance)
        if before is None or (before.name, before.tags) != (service.name, service.tags):
            self.indexes.touch(Topic(Family.SERVICES))
        return True

    def remove_service(self, now: Now, node_name: str, service_id: str) -> bool:
        host = self._host(node_name)
        instance = host.instances.get(service_id)
        if instance is None:
            return False
        for row in list(instance.checks):
            self.remove_check(now, node_name, row.value.check_id)
        self.indexes.advance(now.wall_ms)
        host.instances.pop(service_id)
        self._touch_instance(instance)
        self._unlist_instance(instance)
        self.indexes.touch(Topic(Family.SERVICES))
        return True

    def put_check(self, now: Now, node_name: str, check: Check) -> bool:
        host = self._host(node_name)
        before = host.checks.get(check.check_id)
        if before is not None and before.value == check:
            return False
        index = self.indexes.advance(now.wall_ms)
        if before is not None and before.value.service_id != check.service_id:
            self._detach_check(host, before.value)
        row = Row(check, before.create_index if before is not None else index, index)
        host.checks.put(check.check_id, row)
        host.checks_of(check.service_id).put(check.check_id, row)
        self._touch_check(host, check)
        if before is not None and before.value.service_id != check.service_id:
            self._touch_check(host, before.value)
        elif before is not None:
            self.indexes.touch(Topic(Family.STATE, before.value.status))
        return True

    def remove_check(self, now: Now, node_name: str, check_id: str) -> bool:
        host = self._host(node_name)
        row = host.checks.pop(check_id)
        if row is None:
            return False
        self.indexes.advance(now.wall_ms)
        self._detach_check(host, row.value)
        self._touch_check(host, row.value)
        return True

    # Rows and the lists that lead to them.

    def _host(self, node_name: str) -> CatalogHost:
        host = self.node(node_name)
        assert host is not None, f"{node_name} must be put before what is on it"
        return host

    def _list_instance(self, instance: Instance) -> None:
        service = instance.service.value
        key = (instance.host.name.lower(), service.service_id)
        self._instances.setdefault(service.name.lower(), SortedTable()).put(key, instance)
        self._list_address(service.address, instance)

    def _unlist_instance(self, instance: Instance) -> None:
        service = instance.service.value
        name = service.name.lower()
        group = self._instances[name]
        group.pop((instance.host.name.lower(), service.service_id))
        self._unlist_address(service.address, instance)
        self._touch_service(name)
        if not group:
            del self._instances[name]
            self.indexes.retire(Topic(Family.SERVICE, name))
            self.indexes.retire(Topic(Family.HEALTH, name))

    def _list_address(self, address: str, who: CatalogHost | Instance) -> None:
        if address:
            self._at_address.setdefault(address, SortedTable()).put(_address_key(who), who)

    def _unlist_address(self, address: str, who: CatalogHost | Instance) -> None:
        table = self._at_address.get(address)
        if table is None:
            return
        table.pop(_address_key(who))
        if not table:
            del self._at_address[address]

    def _detach_check(self, host: CatalogHost, check: Check) -> None:
        checks = host.checks_of(check.service_id)
        checks.pop(check.check_id)
        if not checks:
            host.early_checks.pop(check.service_id, None)

    # Which topics a change moves.

    def _touch_host(self, host: CatalogHost) -> None:
        self.indexes.touch(Topic(Family.NODES))
        self.indexes.touch(Topic(Family.NODE, host.name.lower()))
        for instance in host.instances:
            self._touch_service(instance.service.value.name.lower())

    def _touch_service(self, name: str) -> None:
        self.indexes.touch(Topic(Family.SERVICE, name))
        self.indexes.touch(Topic(Family.HEALTH, name))

    def _touch_instance(self, instance: Instance) -> None:
        self._touch_service(instance.service.value.name.lower())
        self.indexes.touch(Topic(Family.INSTANCES))
        self.indexes.touch(Topic(Family.NODE, instance.host.name.lower()))

    def _touch_check(self, host: CatalogHost, check: Check) -> None:
        self.indexes.touch(Topic(Family.NODE_CHECKS, host.name.lower()))
        self.indexes.touch(Topic(Family.STATE, ANY_STATE))
        self.indexes.touch(Topic(Family.STATE, check.status))
        judged = host.instances.get(check.service_id)
        for instance in host.instances if not check.service_id else (judged,) if judged else ():
            self.indexes.touch(Topic(Family.HEALTH, instance.service.value.name.lower()))


def _address_key(who: CatalogHost | Instance) -> tuple[str, str]:
    if isinstance(who, CatalogHost):
        return who.name.lower(), ""
    return who.host.name.lower(), who.service.value.service_id
