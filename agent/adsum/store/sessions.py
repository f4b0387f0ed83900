"""Which sessions there are, which are on a node, and what became of those that ended.

It has a revision of its own, that of the last session that came or went: what a leader notes of renewals
is no change. Of the newest that ended it is known why; when one is forgotten, the floor rises to its end.
Whoever asks about a session or a node that is not there any more is judged as by the history of a keyspace.
From below the floor he is told the revision of now, so that a floor that goes on rising does not have him ask
for ever.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from msgspec.structs import replace

from adsum.session import EndCause, EndedSession, Session
from adsum.store.table_sum import TableSum

ENDED_MAX = 1_024
RECENT_MAX = 4_096


class SessionChange(NamedTuple):
    revision: int
    id: str
    node: str  # folded


class SessionTable:
    def __init__(self) -> None:
        self.revision = 0  # of the last session that came or went
        self.floor = 0  # revision at which the newest ended that is not remembered any more
        self.ended: dict[str, EndedSession] = {}  # by id, oldest first
        self.ends = [0] * len(EndCause)  # here, since this server started
        self.left_to_leader = 0  # of nodes that went with more sessions than one entry ends; since then, too
        # For those who wait: the newest changes, and up to where some are missing. No part of the state.
        self.recent: deque[SessionChange] = deque()
        self.recent_floor = 0
        self.bytes_total = 0
        self._by_id: dict[str, Session] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._node_changed: dict[str, int] = {}  # while it has sessions, or somebody remembers one
        self._sum: TableSum[Session] = TableSum()

    def __len__(self) -> int:
        return len(self._by_id)

    # Questions.

    def get(self, id_: str) -> Session | None:
        return self._by_id.get(id_)

    def all(self) -> list[Session]:
        """By id."""
        return [self._by_id[id_] for id_ in sorted(self._by_id)]

    def ids(self) -> list[str]:
        return list(self._by_id)

    def of_node(self, node: str) -> list[Session]:
        """By id."""
        return [self._by_id[id_] for id_ in sorted(self._on_node.get(node.lower(), ()))]

    def index_of(self, id_: str, since: int = 0) -> int:
        session = self._by_id.get(id_)
        if session is not None:
            return session.modify
        ended = self.ended.get(id_)
        return self._index(ended.revision if ended is not None else 0, since)

    def index_of_node(self, node: str, since: int = 0) -> int:
        return self._index(self._node_changed.get(node.lower(), 0), since)

    def changed_since(self, id_: str, index: int) -> bool:
        session = self._by_id.get(id_)
        if session is not None:
            return session.modify > index
        ended = self.ended.get(id_)
        return index < self.floor or (ended is not None and ended.revision > index)

    def node_changed_since(self, node: str, index: int) -> bool:
        return index < self.floor or self._node_changed.get(node.lower(), 0) > index

    # Changes. `settle` follows on those of one entry.

    def create(self, session: Session, revision: int) -> None:
        created = replace(session, create=revision, modify=revision, renewals=0, remaining_ms=None)
        self._sum.gathered.append((session.id.encode(), None, created))
        self._add(created)
        self._note(created, revision)

    def renew(self, session: Session, remaining_ms: int | None) -> None:
        """Or note what it has left of its time."""
        renewals = session.renewals + (remaining_ms is None)
        noted = replace(session, renewals=renewals, remaining_ms=remaining_ms)
        self._sum.gathered.append((session.id.encode(), session, noted))
        self._by_id[session.id] = noted

    def end(self, ended: EndedSession) -> None:
        session = ended.session
        self._sum.gathered.append((session.id.encode(), session, None))
        del self._by_id[session.id]
        self.bytes_total -= session.bytes_total
        node = session.node.lower()
        on_node = self._on_node[node]
        del on_node[session.id]
        if not on_node:
            del self._on_node[node]
        self.ended[session.id] = ended
        self.ends[ended.cause] += 1
        self._note(session, ended.revision)

    def settle(self) -> None:
        while len(self.ended) > ENDED_MAX:
            ended = self.ended.pop(next(iter(self.ended)))
            self.floor = ended.revision
            self._forget_node(ended.session.node.lower())
        self._sum.settle()

    # For the whole state.

    def standing(self) -> tuple[int, ...]:
        """Equal where all that decides is."""
        assert self._sum.value is not None, "nothing is cut off it"
        return len(self._by_id), self._sum.value, len(self.ended), self.floor, self.revision

    def frozen(self) -> tuple[list[Session], list[EndedSession]]:
        return list(self._by_id.values()), list(self.ended.values())

    def load(self, sessions: list[Session]) -> None:
        self._sum.load([session.id.encode() for session in sessions], sessions)
        for session in sessions:
            self._add(session)
            self._node_moved(session.node, session.modify)

    def load_ended(self, ended: list[EndedSession]) -> None:
        for each in ended:
            self.ended[each.session.id] = each
            self._node_moved(each.session.node, each.revision)

    def load_revisions(self, revision: int, floor: int) -> None:
        """What changed lately is not known here."""
        self.revision = self.recent_floor = revision
        self.floor = floor

    # Inside.

    def _add(self, session: Session) -> None:
        self._by_id[session.id] = session
        self.bytes_total += session.bytes_total
        self._on_node.setdefault(session.node.lower(), {})[session.id] = None

    def _note(self, session: Session, revision: int) -> None:
        self.revision = revision
        self._node_moved(session.node, revision)
        self.recent.append(SessionChange(revision, session.id, session.node.lower()))
        if len(self.recent) > RECENT_MAX:
            self.recent_floor = self.recent.popleft().revision

    def _node_moved(self, node: str, revision: int) -> None:
        node = node.lower()
        self._node_changed[node] = max(self._node_changed.get(node, 0), revision)

    def _forget_node(self, node: str) -> None:
        if node not in self._on_node and self._node_changed.get(node, self.floor + 1) <= self.floor:
            del self._node_changed[node]

    def _index(self, changed: int, since: int) -> int:
        return self.revision if since < self.floor else max(changed, since)
