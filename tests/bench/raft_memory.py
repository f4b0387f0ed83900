"""How much memory a member takes while large values pass through it.

Ten thousand writes of 512 KiB, the largest that Consul takes, are five gigabytes; a member keeps the last
value of each of a few keys. What else it has in memory at any time is bounded by its settings.
"""

from __future__ import annotations

from pathlib import Path

from adsum.consensus.settings import ServerSettings
from adsum.net import outbox
from tests.bench.figure import Figure, informs, limit, megabytes, plain
from tests.bench.proposers import Door
from tests.bench.raft_machines import PROPOSAL
from tests.bench.raft_member import FRAME
from tests.bench.raft_members import MembersFailed, members

WRITES = 10_000
VALUE_BYTES = 512 * 1024
AT_ONCE = 32
KEYS = 4
MB = 1 << 20


def memory(folder: Path | None) -> list[Figure]:
    with members(folder) as ours:
        _number, door = ours.leader()
        idle_mb = max(ours.resident_most_mb())
        write_all(door)
        door.close()
        most_mb = ours.resident_most_mb()
        standings = ours.until_equal()
    lost = sum(WRITES - int(standing["applied"]) + int(standing["gaps"]) for standing in standings)
    added_mb = bound_bytes(ServerSettings()) / MB
    return [
        informs(f"memory: {WRITES:,} writes of 512 KiB, idle before", idle_mb, None, megabytes),
        limit("    the most of any member", max(most_mb), idle_mb + added_mb, megabytes),
        informs("    the least", min(most_mb), None, megabytes),
        limit("    acknowledged and lost", lost, 0, plain),
    ]


def bound_bytes(settings: ServerSettings) -> int:
    """What a member may have in memory beside its program and its state: the log; what is not committed yet,
    in the log and as bytes for the disk; what waits to be sent to two followers."""
    log = settings.entries_kept_bytes + settings.snapshot_log_bytes
    return log + 2 * settings.raft.uncommitted_bytes_max + 2 * outbox.BYTES_MAX


def write_all(door: Door) -> None:
    filling = b"x" * (VALUE_BYTES - PROPOSAL.size)
    sent = answered = 0
    while answered < WRITES:
        while sent < min(WRITES, answered + AT_ONCE):
            key, sequence = sent % KEYS, sent // KEYS + 1
            sent += 1
            content = PROPOSAL.pack(key, sequence) + filling
            door.send(FRAME.pack(len(content), 0, b"P") + content)
        for _number, letter, said in door.receive():
            if letter != b"A":
                raise MembersFailed(f"a write was not taken: {said.decode()}")
            answered += 1
