"""One follower as its leader sees it."""

from __future__ import annotations

from adsum.raft.progress import Progress, ProgressMode
from adsum.raft.settings import RaftSettings

SETTINGS = RaftSettings(inflight_messages_max=2, inflight_bytes_max=100)


def replicating(match: int = 5) -> Progress:
    progress = Progress(SETTINGS, 10)
    progress.acknowledged(match, 20)
    progress.to_replicate()
    return progress


def test_probing_sends_one_message_and_waits() -> None:
    progress = Progress(SETTINGS, 10)
    assert (progress.mode, progress.can_send, progress.owes_append) == (ProgressMode.PROBE, True, True)
    progress.sent(12, 50, 0)
    assert not progress.can_send
    assert progress.next == 10
    progress.allow_probe()
    assert progress.can_send


def test_replication_runs_ahead_until_the_window_is_full_of_messages() -> None:
    progress = replicating()
    progress.sent(6, 10, 0)
    assert (progress.next, progress.can_send) == (7, True)
    progress.sent(7, 10, 0)
    assert (progress.next, progress.can_send) == (8, False)
    assert progress.acknowledged(6, 20)
    assert progress.can_send


def test_replication_runs_ahead_until_the_window_is_full_of_bytes() -> None:
    progress = replicating()
    progress.sent(6, 100, 0)
    assert not progress.can_send
    progress.acknowledged(6, 20)
    assert (progress.can_send, progress.inflight_bytes, progress.inflight_messages) == (True, 0, 0)


def test_one_answer_frees_everything_before_it() -> None:
    progress = replicating()
    progress.sent(6, 10, 0)
    progress.sent(9, 10, 0)
    progress.acknowledged(9, 20)
    assert (progress.match, progress.next, progress.inflight_messages) == (9, 10, 0)


def test_a_message_without_entries_takes_no_room() -> None:
    progress = replicating()
    progress.sent(5, 0, 3)
    assert (progress.inflight_messages, progress.next, progress.commit_sent) == (0, 6, 3)


def test_a_rejection_of_what_was_proven_since_is_stale() -> None:
    progress = replicating(match=5)
    assert not progress.rejected(4, 2)
    assert progress.mode is ProgressMode.REPLICATE


def test_a_rejection_in_replication_goes_back_to_what_is_proven() -> None:
    progress = replicating(match=5)
    progress.sent(9, 10, 0)
    assert progress.rejected(9, 7)
    assert (progress.mode, progress.next, progress.inflight_bytes) == (ProgressMode.PROBE, 6, 0)


def test_a_rejection_in_probing_goes_to_the_hint_but_not_behind_the_proof() -> None:
    progress = Progress(SETTINGS, 10)
    assert not progress.rejected(8, 3)
    assert progress.rejected(9, 3)
    assert (progress.next, progress.owes_append) == (4, True)
    progress.acknowledged(5, 20)
    progress.to_probe(9)
    assert progress.rejected(8, 1)
    assert progress.next == 6


def test_nothing_is_sent_while_a_snapshot_is_on_its_way() -> None:
    progress = replicating()
    progress.to_snapshot(20)
    assert not progress.can_send
    assert not progress.rejected(9, 3)
    progress.acknowledged(20, 20)
    assert (progress.match, progress.next) == (20, 21)


def test_what_follows_on_a_snapshot_is_awaited_until_the_end_of_the_log_of_then_is_reached() -> None:
    progress = replicating()
    progress.to_snapshot(20)
    assert progress.awaited_index == 20
    progress.acknowledged(20, last_index=30)
    progress.acknowledged(29, last_index=45)
    assert progress.awaited_index == 29
    progress.acknowledged(30, last_index=45)
    assert progress.awaited_index == 0
    progress.acknowledged(31, last_index=60)
    assert progress.awaited_index == 0


def test_who_is_silent_for_two_windows_is_not_active() -> None:
    progress = Progress(SETTINGS, 10)
    assert not progress.is_active
    progress.heard()
    progress.windows_silent += 1
    assert progress.is_active
    progress.windows_silent += 1
    assert not progress.is_active


def test_a_follower_that_lacks_what_it_proved_is_asked_again_by_the_next_heartbeat_only() -> None:
    progress = replicating(match=5)
    progress.to_probe(6)
    progress.sent(5, 0, 0)
    assert not progress.rejected(5, 2)
    assert not progress.can_send
    progress.allow_probe()
    assert progress.can_send
