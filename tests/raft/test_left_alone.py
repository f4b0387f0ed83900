"""A server is left alone after a message of which nothing would come."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from adsum.consensus.core import ConsensusCore
from adsum.consensus.effects import ConsensusEffect
from adsum.now import Now
from adsum.raft.messages import Message
from adsum.testing.raft_swarm import run


def test_what_makes_no_turn_due_leaves_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    received, left_alone = ConsensusCore.receive, 0

    def checked(core: ConsensusCore, now: Now, message: Message) -> Sequence[ConsensusEffect]:
        nonlocal left_alone
        wanted = received(core, now, message)
        due_ns = core.deadline()
        if due_ns is not None and due_ns > now.monotonic_ns:
            left_alone += 1
            assert core.raft.ready(with_commit_news=False) is None
        return wanted

    monkeypatch.setattr(ConsensusCore, "receive", checked)
    for seed in range(12):
        assert not run(seed).failure
    assert left_alone > 1_000
