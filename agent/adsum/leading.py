"""How consensus stands on a server, in words that all share: for pages and the command line. Nothing is
decided by it."""

from __future__ import annotations

from adsum.named import NamedTuple


class PeerFigures(NamedTuple):
    node_id: str
    is_voter: bool
    last_index: int | None  # up to where its log is known to be ours; only the leader knows


class ConsensusFigures(NamedTuple):
    role: str  # leader, follower, candidate; or pre-candidate, before it disturbs anyone
    term: int
    leader: str  # its node id; empty while none is known
    leader_since_ms: int  # wall clock here, when this server saw it lead; 0 while there is none
    behind_ms: int  # since the leader was heard
    last_log_index: int
    last_log_term: int
    commit_index: int
    applied_index: int
    snapshot_index: int
    snapshot_term: int
    peers: tuple[PeerFigures, ...]  # itself among them
    doubt: str = ""  # "differs" or "disputed": whether others hold the same state
