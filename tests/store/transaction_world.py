"""A transaction beside the same operations one by one: it is to find what they find, fail where they fail and
leave what they leave, or nothing of it."""

from __future__ import annotations

import re
from random import Random

from adsum.external import ExternalItem, ExternalKind
from adsum.session import Session, SessionBehavior
from adsum.store.commands import CreateSession, RegisterExternal, RunTransaction
from adsum.transactions import (
    EntryOperation,
    EntryResult,
    EntryVerb,
    KeyOperation,
    KeyOperationVerb,
    KeyResult,
    Operation,
    OperationError,
    Result,
    TransactionAnswer,
    decode_answer,
)
from tests.store.stores import Store

KEYS = (b"a", b"a/1", b"a/2", b"b", b"b/1")
SESSIONS = ("one", "two", "on-ext")
NODES = ("ext", "Other")
WRITING = (
    *(KeyOperationVerb.SET, KeyOperationVerb.LOCK, KeyOperationVerb.UNLOCK, KeyOperationVerb.DELETE),
    KeyOperationVerb.DELETE_TREE,
)


def check(seed: int) -> bool:
    """Whether it was done. Raises AssertionError with what is different."""
    random = Random(seed)
    together, apart = _used(seed), _used(seed)
    operations = [_operation(random, together) for _ in range(random.randrange(1, 7))]
    before = _whole(together)
    said = _told(together, operations)
    each = [_told(apart, [operation]) for operation in operations]
    failed = {place: _worded(answer.errors[0]) for place, answer in enumerate(each) if answer.errors}
    assert {error.place: _worded(error) for error in said.errors} == failed, operations
    if failed:
        assert _whole(together) == before, "nothing of it is done"
        return False
    assert list(map(_shown, said.results)) == [_shown(found) for one in each for found in one.results], (
        operations
    )
    assert _whole(together) == _whole(apart), operations
    together.restarted()
    return True


def _used(seed: int) -> Store:
    store, random = Store(), Random(-seed - 1)
    store.time_ms = 1_000
    behaviors = SessionBehavior.RELEASE, SessionBehavior.DELETE
    store.run(
        RegisterExternal((_item(ExternalKind.NODE, "ext", ""), _item(ExternalKind.SERVICE, "ext", "web")))
    )
    for number, id_ in enumerate(SESSIONS):
        node_id = b"" if id_ == "on-ext" else b"uuid"
        session = Session(
            *(id_, "ext", node_id, 1, 0),
            lock_delay_ns=random.choice((0, 10**9)),
            behavior=behaviors[(seed + number) % 2],
        )
        store.run(CreateSession(session))
    for key in KEYS:
        lot = random.randrange(4)
        if lot == 0:
            store.put(key, b"plain")
        elif lot == 1:
            store.acquire(key, random.choice(SESSIONS), b"held")
        elif lot == 2:
            store.acquire(key, "two", b"held")
            store.delete(key)
    return store


def _operation(random: Random, store: Store) -> Operation:
    """More that write than that look, and more that can be done than that cannot."""
    lot = random.random()
    if lot < 0.1:
        return EntryOperation(EntryVerb.DELETE, _item(ExternalKind.NODE, "ext", ""))
    if lot < 0.25:
        kind = random.choice(list(ExternalKind))
        id_ = "" if kind is ExternalKind.NODE else random.choice(("web", "up"))
        service_id = random.choice(("", "web")) if kind is ExternalKind.CHECK else ""
        found = store.machine.external.get("ext", kind, id_)
        index = random.choice((0, found.modify if found is not None else 0))
        item = _item(kind, random.choice(NODES), id_, service_id, index, random.choice((b"r", b"s")))
        return EntryOperation(random.choice(list(EntryVerb)), item)
    key, verb = random.choice(KEYS), random.choice((*KeyOperationVerb, *WRITING * 3))
    record = store.space.get(key)
    index = record.modify if record is not None else 0
    session = record.lease if record is not None and record.lease and lot < 0.8 else random.choice(SESSIONS)
    return KeyOperation(verb, key, random.choice((b"plain", b"v")), random.randrange(2), index, session)


def _item(
    kind: ExternalKind, node: str, id_: str, service_id: str = "", index: int = 0, row: bytes = b"r"
) -> ExternalItem:
    return ExternalItem(kind, node, id_, row, service_id=service_id, modify=index)


def _told(store: Store, operations: list[Operation]) -> TransactionAnswer:
    answer = store.run(RunTransaction(tuple(operations)))
    assert answer.extras is not None
    return decode_answer(answer.extras.transaction)


def _worded(error: OperationError) -> str:
    """Without revisions, which are others."""
    return re.sub(r"index \d+ ", "index N ", error.sentence)


def _shown(result: Result) -> object:
    """Without revisions, which are others."""
    if isinstance(result, EntryResult):
        item = result.item
        return item.node, item.kind, item.id, item.row, item.service_id
    assert isinstance(result, KeyResult)
    record = result.record
    fields = (record.value, record.flags, record.lease, record.lock_index) if record is not None else None
    return result.key, fields, result.shows_value


def _whole(store: Store) -> object:
    space, machine = store.space, store.machine
    records = [
        (key, each.value, each.flags, each.lease, each.lock_index, each.version)
        for key, each in space.table.items(b"", None)
    ]
    graves = [(key, each.lock_index) for key, each in space.tombstones.items(b"", None)]
    held = [space.held.of(id_) for id_ in SESSIONS]
    rows = sorted((key, row.item.row, row.item.service_id) for key, row in machine.external.rows.items())
    ended = [(each.session.id, each.cause, each.keys) for each in machine.sessions.ended.values()]
    every = space.history.after(space.history.floor)
    changes = [(key, after is not None) for _revision, key, _before, after, *_ in every]
    return records, graves, held, rows, ended, sorted(space.delays.all()), changes
