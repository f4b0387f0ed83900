"""Which sessions hang on which node and which checks there, so that a flip costs only those concerned."""

from __future__ import annotations

from adsum.session import Session
from adsum.sessions.sees import CheckSeen, HostSeen, HostVerdict, NodeKey, RecordsSeen, SeesHosts, node_of


class WatchedNode:
    __slots__ = ("behind", "checks", "host", "records", "sessions")

    def __init__(self, host: HostSeen, records: RecordsSeen) -> None:
        self.host = host
        self.records = records
        self.sessions: dict[str, None] = {}
        self.checks: dict[str, _WatchedCheck] = {}
        self.behind: dict[str, None] = {}  # those that may end when more is known of the node


class _WatchedCheck:
    __slots__ = ("seen", "sessions")

    def __init__(self, seen: CheckSeen) -> None:
        self.seen = seen
        self.sessions: dict[str, None] = {}


class SessionsByNode:
    def __init__(self, sees: SeesHosts) -> None:
        self.sessions: dict[str, Session] = {}
        self.nodes: dict[NodeKey, WatchedNode] = {}
        self._sees = sees

    def add(self, session: Session) -> NodeKey | None:
        """Its node, if it belongs to one; of a session, only what does not decide may change later."""
        is_known = session.id in self.sessions
        self.sessions[session.id] = session
        if not session.node:
            return None
        who = node_of(session)
        if is_known:
            return who
        node = self.nodes.get(who)
        if node is None:
            node = self.nodes[who] = WatchedNode(self._sees.host(who), self._sees.records(who))
        node.sessions[session.id] = None
        for check_id in (*session.node_checks, *session.service_checks):
            if check_id not in node.checks:
                node.checks[check_id] = _WatchedCheck(self._sees.check(who, check_id))
            node.checks[check_id].sessions[session.id] = None
        return who

    def remove(self, session_id: str) -> Session | None:
        session = self.sessions.pop(session_id, None)
        if session is None or not session.node:
            return session
        who = node_of(session)
        node = self.nodes[who]
        del node.sessions[session_id]
        node.behind.pop(session_id, None)
        for check_id in dict.fromkeys((*session.node_checks, *session.service_checks)):
            check = node.checks[check_id]
            del check.sessions[session_id]
            if not check.sessions:
                del node.checks[check_id]
        if not node.sessions:
            del self.nodes[who]
        return session

    def moved(self, who: NodeKey) -> dict[str, None]:
        """Those to be judged again."""
        node, found = self.nodes.get(who), dict[str, None]()
        if node is None:
            return found
        host, records = self._sees.host(who), self._sees.records(who)
        if host != node.host and host.verdict in (HostVerdict.GONE, HostVerdict.UNKNOWN):
            found |= node.sessions
        for check_id, check in node.checks.items():
            seen = self._sees.check(who, check_id)
            if seen is not check.seen:
                check.seen = seen
                found |= check.sessions
        if host != node.host or records != node.records or self._is_followed(who, node, host):
            found |= node.behind
            node.behind = {}
        node.host, node.records = host, records
        return found

    def _is_followed(self, who: NodeKey, node: WatchedNode, host: HostSeen) -> bool:
        if host.verdict is not HostVerdict.UNKNOWN:
            return False
        names = {self.sessions[session_id].node for session_id in node.behind}  # it may have been renamed
        return any(self._sees.followed_by(who, name) for name in names)
