"""The copy of the catalog that outlives the process: what an agent answers with until it has heard better.

Every minute in which something changed, what is known of every other owner, and whether it is hidden, becomes
one file. Encoding is done a few owners at a time, and only for those that changed, so that it never holds the
loop; the file is replaced unsynced, for losing it costs a cold start and no more.

After a start the nodes in it are shown as they last were, and the agent says that it is stale; until then the
file stays as it is, for this life knows nothing better. Each goes over
to membership when gossip meets it; after the first comparison with another agent those that gossip never
met are gone, and after three days, the time a failed member is kept, they are in any case.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adsum.address import Address
from adsum.agent.saved_files import COPY
from adsum.catalog.replication.bodies import FRAME_BYTES
from adsum.catalog.replication.deltas import decode as decode_delta
from adsum.catalog.replication.state import OwnerState, TooBig, applied, span_of
from adsum.catalog.saved import DamagedFile, opened, sealed
from adsum.cbor import BadEncoding
from adsum.effects import FileChange, WriteFile
from adsum.gossip.claims import HOST, META, NAME, NODE_ID, PORT, VERSION, Profile
from adsum.named import NamedTuple
from adsum.now import HOUR, MILLISECOND, MINUTE, Now
from adsum.rows import RowCodec, flag, listed, octets

FORMAT = 3
SAVE_NS = MINUTE
SLICE_NS = 50 * MILLISECOND
OWNERS_A_SLICE = 100  # at 20 services each, some 5 ms
KEPT_NS = 72 * HOUR


class OtherFormat(DamagedFile):
    """Of another version of Adsum: as good as none."""


class SavedOwner(NamedTuple):
    profile: Profile
    spans: tuple[bytes, ...]  # everything known of it, as exchanges would hand it over
    is_shown: bool = True  # and not called dead


class KnownOwner(NamedTuple):
    profile: Profile
    state: OwnerState
    is_shown: bool


class SavedCopy(NamedTuple):
    wall_ms: int
    owners: tuple[SavedOwner, ...]
    unreadable: int = 0  # owners that were left out
    store: tuple[bytes, ...] = ()  # what the servers published, which is no member


def encode(copy: SavedCopy) -> bytes:
    rows = [
        _OWNER.row((who.node_id, who.name, *who.address, who.meta, spans, is_shown, who.version))
        for who, spans, is_shown in copy.owners
    ]
    return sealed([FORMAT, copy.wall_ms, rows, *([list(copy.store)] if copy.store else [])])


def decode(content: bytes) -> SavedCopy:
    """Raises `DamagedFile`, `OtherFormat` among them. What makes no sense costs its owner and no other."""
    match opened(content):
        case [int(form), int(wall_ms), list(rows), *more] if form == FORMAT:
            owners = [_owner(row) for row in rows]
            known = tuple(owner for owner in owners if owner is not None)
            return SavedCopy(wall_ms, known, len(owners) - len(known), _store(more))
        case [form, *_] if type(form) is int and form != FORMAT:
            raise OtherFormat(f"it is of format {form}, and this version writes {FORMAT}")
    raise DamagedFile("it holds no catalog")


def _store(more: list[object]) -> tuple[bytes, ...]:
    match more:
        case [list(spans), *_]:
            return tuple(each for each in spans if type(each) is bytes)
    return ()


def _owner(row: object) -> SavedOwner | None:
    try:
        return _OWNER.decode(row) if isinstance(row, list) else None
    except BadEncoding:
        return None


def _saved(node_id: bytes, name: str, host: str, port: int, meta: bytes, *said: Any) -> SavedOwner:
    spans, is_shown, version = said
    return SavedOwner(Profile(node_id, name, Address(host, port), meta, version=version), spans, is_shown)


_OWNER = RowCodec(
    _saved, NODE_ID, NAME, HOST, PORT, META, listed("spans", octets("")), flag("is_shown"), VERSION
)


def file(copy: SavedCopy) -> FileChange:
    return WriteFile(COPY, encode(copy))


class Copying:
    """What the next file needs, gathered in slices."""

    def __init__(self, now: Now) -> None:
        self._spans: dict[bytes, tuple[OwnerState, tuple[bytes, ...]]] = {}  # by owner
        self._begin_ns = now.monotonic_ns + SAVE_NS
        self._written: tuple[object, ...] | None = None
        self._slice_ns: int | None = None

    def deadline(self) -> int:
        return self._begin_ns if self._slice_ns is None else self._slice_ns

    def postpone(self, now: Now) -> None:
        """Nothing is worth a file yet."""
        if now.monotonic_ns >= self.deadline():
            self._slice_ns, self._begin_ns = None, now.monotonic_ns + SAVE_NS

    def tick(
        self, now: Now, known: Iterable[KnownOwner], root: bytes, store: OwnerState | None = None
    ) -> tuple[FileChange, ...]:
        """The file, once it is due, complete, and not what was written last."""
        if now.monotonic_ns < self.deadline():
            return ()
        listed = list(known)
        version = (root, len(listed), *(each.profile.short for each in listed if not each.is_shown))
        if version == self._written:
            self._begin_ns = now.monotonic_ns + SAVE_NS
            return ()
        if not self._gather(_states(listed, store), OWNERS_A_SLICE):
            self._slice_ns = now.monotonic_ns + SLICE_NS
            return ()
        self._slice_ns, self._begin_ns, self._written = None, now.monotonic_ns + SAVE_NS, version
        return (self._file(now, listed, store),)

    def last(
        self, now: Now, known: Iterable[KnownOwner], store: OwnerState | None = None
    ) -> tuple[FileChange, ...]:
        """At an orderly end, however long it takes."""
        listed = list(known)
        states = _states(listed, store)
        self._gather(states, len(states))
        return (self._file(now, listed, store),) if states else ()

    def _gather(self, states: list[OwnerState], owners_max: int) -> bool:
        """Whether all are."""
        kept = {owner: state for owner, (state, _spans_of_it) in self._spans.items()}
        changed = [state for state in states if kept.get(state.owner) is not state]
        for state in changed[:owners_max]:
            self._spans[state.owner] = (state, spans_of(state))
        return len(changed) <= owners_max

    def _file(self, now: Now, listed: list[KnownOwner], store: OwnerState | None) -> FileChange:
        self._spans = {state.owner: self._spans[state.owner] for state in _states(listed, store)}
        spans = {owner: spans for owner, (_state, spans) in self._spans.items()}
        owners = tuple(SavedOwner(each.profile, spans[each.state.owner], each.is_shown) for each in listed)
        return file(SavedCopy(now.wall_ms, owners, store=spans[store.owner] if store is not None else ()))


def _states(listed: list[KnownOwner], store: OwnerState | None) -> list[OwnerState]:
    return [*(each.state for each in listed), *([store] if store is not None else [])]


def recalled(saved: SavedOwner) -> OwnerState | None:
    """None when nothing of it can be read."""
    state: OwnerState | None = None
    try:
        for encoded in saved.spans:
            delta = decode_delta(encoded)
            if state is None:
                state = OwnerState(delta.owner, delta.generation)
            if (delta.owner, delta.generation) != (state.owner, state.generation):
                break
            state = applied(state, delta)
    except (BadEncoding, TooBig):
        return state  # as far as it could be read
    return state


def spans_of(state: OwnerState | None) -> tuple[bytes, ...]:
    """As exchanges would hand it over."""
    if state is None:
        return ()
    spans = []
    since, is_all = 0, False
    while not is_all:
        encoded, is_all = span_of(state, since, FRAME_BYTES)
        spans.append(encoded)
        through = decode_delta(encoded).through or 0
        if through <= since:
            break  # what is known beyond a gap comes with the next exchange
        since = through
    return tuple(spans)
