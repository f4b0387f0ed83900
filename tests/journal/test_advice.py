from __future__ import annotations

import pytest

from adsum.journal.advice import Situation, advice, duration


def about(status: str, **facts: object) -> str:
    return advice(Situation(name="n3", status=status, address="10.0.0.3:8301", **facts))  # type: ignore[arg-type]


def test_the_observer_s_own_trouble_comes_before_all_others() -> None:
    assert about("failed", cause="silent", observer_is_isolated=True).startswith(
        "This agent reaches less than"
    )
    assert about("alive", is_self=True, observer_is_isolated=True).startswith("Look at this host's network")


def test_a_crash_asks_for_the_process_and_silence_for_the_network() -> None:
    assert "Its host is up" in about("failed", cause="refused")
    silent = about("failed", cause="silent")
    assert "whether UDP and TCP pass between here and 10.0.0.3:8301, in both directions" in silent
    assert "`adsum force-leave n3`" in silent


def test_nobody_is_forced_out_while_a_third_is_silent() -> None:
    told = about("failed", cause="silent", holds_last_known=True)
    assert "suspect the network" in told
    assert "force-leave" not in told


def test_an_announced_restart_is_waited_for_as_long_as_it_was_announced() -> None:
    assert about("suspect", restarting_ms=12_000) == (
        "Wait: it announced a restart and has 12 s left to come back."
    )
    assert "announced a restart" not in about("failed", cause="refused", restarting_ms=12_000)


def test_a_suspicion_has_a_time_left() -> None:
    assert about("suspect", time_left_ms=4_100).startswith("Wait: it has 4.1 s left to refute.")


def test_one_that_is_wrongly_accused_again_and_again_is_worth_a_look() -> None:
    assert "refuted 3 times within the hour" in about("alive", refuted_lately=3)
    assert about("alive", refuted_lately=2) == "Nothing."


def test_a_detour_names_what_is_blocked() -> None:
    assert "let UDP pass between here and 10.0.0.3:8301" in about("alive", is_detour=True)


def test_one_that_left_and_one_that_was_made_to_leave_come_back_differently() -> None:
    assert about("left", cause="left").startswith("Nothing. To have it back")
    assert "it comes back by itself" in about("left", cause="forced")


def test_one_not_met_since_the_observer_s_start_makes_one_look_at_the_observer_s_log() -> None:
    assert "its log says why it was not let in" in about("forgotten", is_unmet=True)


def test_the_forgotten_need_nothing() -> None:
    assert "joins again" in about("forgotten")


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        *[(0, "0.0 s"), (4_120, "4.1 s"), (12_999, "12 s"), (59_999, "59 s"), (60_000, "1 min")],
        *[(3_599_999, "59 min"), (3_600_000, "1 h"), (47 * 3_600_000, "47 h"), (72 * 3_600_000, "3 days")],
    ],
)
def test_durations_are_as_people_say_them(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_one_that_did_not_answer_is_looked_for_on_its_own_host() -> None:
    assert "see on its host whether the agent runs" in about("forgotten", is_unanswered=True)
