"""What an operator may set, and the limits of what a leader does for sessions."""

from __future__ import annotations

from typing import NamedTuple

from adsum.now import MILLISECOND, SECOND

LATE_FACTOR = 2  # Consul's: a session ends when twice its TTL has passed
LONG_TTL_MS = 60_000  # what is longer is noted in the log
NOTED_EVERY_NS = 5 * SECOND
LEFT_NS_MIN = 5 * SECOND  # of a long session when another server takes over
# Of one entry, which is applied in one piece.
SESSIONS_PER_ENTRY_MAX = 250
KEYS_PER_ENTRY_MAX = 1_000  # held by those that it ends; of one session it may be more
ENTRIES_UNDER_WAY_MAX = 4
LOOKS_PER_TICK = 500  # at sessions, and as many whose time has come
RENEWALS_WAITING_MAX = 200_000
RETRY_NS = SECOND  # of what the log did not take
UNTRUSTED_LOOK_NS = 50 * MILLISECOND  # until time is trusted again
FAILURE_LOOK_NS = SECOND
AWAKE_NS = 2 * SECOND  # without a pause, before a node is taken for failed: what it missed is heard by then
LONG_PAUSE_NS = SECOND  # in which others call us failed: what was seen before it says nothing
BEHIND_LOOK_NS = SECOND  # whether the records of a node have caught up
VERDICTS_ASKED_MAX = 16  # at once
SILENT_VOTER_NS = 10 * SECOND  # for which one that did not answer is left alone, if others answer


class KeeperSettings(NamedTuple):
    node_grace_ns: int = 10 * SECOND  # how long a node has failed before its sessions end
    long_ttl_ms: int = LONG_TTL_MS


KEEPER_SETTINGS = KeeperSettings()
