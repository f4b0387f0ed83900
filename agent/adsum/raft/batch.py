"""What the core wants done, handed out by `ready()`. The driver's eleven duties, in short:

 1. Store batches in order, one write and one sync each; `stored(t)` says that all up to t are durable.
 2. Send `send_after_store` only after that: votes and answers to appends promise something about this disk.
 3. `send_now` may leave at once: a leader's disk and its network work side by side.
 4. Apply `committed` in order, then say `applied`. It holds only what is durable here.
 5. A batch with `install_snapshot` is stored when the log on disk stands on the file, and what follows may be
    stored from then on. It is applied after `restored(index)`: the state machine stands on the snapshot, too.
 6. `must_sync` False allows a write without a sync: only the commit index moved.
 7. Answer a read when everything up to its index is applied; when leadership is lost, so are pending ones.
 8. A failed sync is never tried again: `store_failed()`, and the process stops.
 9. `tick` at an even pace; after a pause prove leadership by a read before acting on time.
10. Bring the file of a `SnapshotOffer`, then hand the offer to the target's core, and `report_snapshot` here.
11. Hand in messages whole and in any order; lost, late and repeated ones are the core's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from adsum.raft.messages import Message
from adsum.raft.reads import ConfirmedRead
from adsum.raft.types import Entry, HardState, MemberId, Role, SnapshotMeta, SnapshotRef, Term, Ticket


class Soft(Struct, frozen=True):
    """What may be forgotten: of interest to whoever routes requests and paints pages."""

    role: Role
    leader: MemberId | None
    term: Term
    # Not 0 when applying has stopped, for the log goes on at a level this program does not know.
    level_missing: int = 0
    # Nor is anything more stored: it would all be in memory until a program comes that can apply it.
    refuses_appends: bool = False


class LogChange(Struct, frozen=True):
    """What one batch of the core wants stored, in this order."""

    install: SnapshotRef | None = None  # drop the whole log for it
    truncate_from: int | None = None
    entries: Sequence[Entry] = ()
    hard_state: HardState | None = None


class Batch(Struct, frozen=True):
    ticket: Ticket
    hard_state: HardState | None
    truncate_from: int | None  # drop this index and all after it, before adding `entries`
    entries: list[Entry]
    install_snapshot: SnapshotMeta | None  # drop the whole log for it, before adding `entries`
    must_sync: bool
    send_now: list[Message]
    send_after_store: list[Message]
    committed: list[Entry]
    reads: list[ConfirmedRead]
    soft: Soft | None

    @property
    def must_store(self) -> bool:
        return (
            self.hard_state is not None
            or bool(self.entries)
            or self.truncate_from is not None
            or self.install_snapshot is not None
        )
