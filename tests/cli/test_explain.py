from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

MEMBER: dict[str, object] = {
    "ID": "u-3",
    "Name": "n3",
    "Address": "10.0.0.3:8301",
    "Status": "failed",
    "Self": False,
    "Generation": 7,
    "Incarnation": 2,
    "Phi": 3.6,
    "PhiParts": {"Challenge": 2.9, "Schedule": 0.0, "Accusation": 0.7},
    "HeardAgoMS": 6_255,
    "RoundTripMS": 0.809,
}
FAILED = {
    "Observer": "n1",
    "Node": "n3",
    "Status": "failed",
    "Summary": "n3 has been failed for 2 min.",
    "Story": [
        {"Time": "2026-11-18T14:58:01.120Z", "Sentence": "n1 suspects n3: no answer to a datagram."},
        {"Time": "2026-11-18T14:58:09.500Z", "Sentence": "n3 is failed, by silence."},
    ],
    "Next": "See whether the host runs.",
    "Member": MEMBER,
    "Entries": [],
}


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_failed_node_is_explained_and_is_a_failure(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/membership/explain/n3"] = FAILED
    assert adsum("explain", "n3") == (
        1,
        (
            "n3 has been failed for 2 min. So says n1.\n"
            "  at 10.0.0.3:8301, generation 7, incarnation 2, last answered 6.3 s ago, round trip 0.8 ms\n"
            "\n"
            "  2026-11-18 14:58:01.120  n1 suspects n3: no answer to a datagram.\n"
            "  2026-11-18 14:58:09.500  n3 is failed, by silence.\n"
            "\n"
            "Next: See whether the host runs.\n"
        ),
        "",
    )


def test_an_observer_that_knows_itself_to_be_out_of_date_says_so(adsum: Adsum, agent: FakeAgent) -> None:
    stale = {"Reason": "joining", "Sentence": "others are missing"}
    agent.answers["GET /v1/membership/explain/n3"] = FAILED | {"Stale": stale}
    assert adsum("explain", "n3").out.splitlines()[:2] == [
        "n3 has been failed for 2 min. So says n1.",
        "n1 may be out of date (joining): others are missing.",
    ]


def test_surprise_is_told_of_those_that_are_expected_to_answer(adsum: Adsum, agent: FakeAgent) -> None:
    suspected = FAILED | {"Status": "suspect", "Member": MEMBER | {"Status": "suspect"}}
    agent.answers["GET /v1/membership/explain/n3"] = suspected
    status, out, _err = adsum("explain", "n3")
    assert status == 1
    assert "\n  phi 3.6: challenge 2.9, schedule 0.0, accusation 0.7\n" in out


def test_a_well_one_without_a_story_is_three_lines(adsum: Adsum, agent: FakeAgent) -> None:
    unknown: dict[str, object] = {"HeardAgoMS": None, "RoundTripMS": None, "Phi": 0.0, "Status": "alive"}
    agent.answers["GET /v1/membership/explain/n3"] = {
        **FAILED,
        "Status": "alive",
        "Summary": "n3 has been alive for 2 h.",
        "Story": [],
        "Next": "Nothing.",
        "Member": MEMBER | unknown,
    }
    assert adsum("explain", "n3") == (
        0,
        (
            "n3 has been alive for 2 h. So says n1.\n"
            "  at 10.0.0.3:8301, generation 7, incarnation 2\n"
            "\n"
            "Next: Nothing.\n"
        ),
        "",
    )


@pytest.mark.parametrize("member", [None, MEMBER | {"Self": True}], ids=["forgotten", "itself"])
def test_one_that_is_gone_and_the_agent_itself_have_no_facts(
    adsum: Adsum, agent: FakeAgent, member: object
) -> None:
    agent.answers["GET /v1/membership/explain/n3"] = FAILED | {"Status": "forgotten", "Member": member}
    status, out, _err = adsum("explain", "n3")
    assert status == 0
    assert "generation" not in out


def test_programs_get_the_whole_answer(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/membership/explain/n3"] = FAILED
    status, out, _err = adsum("explain", "n3", "-o=json")
    assert (status, json.loads(out)) == (1, FAILED)


def test_one_whom_nobody_knows_is_not_found(adsum: Adsum, agent: FakeAgent) -> None:
    sentence = "No member is called n9, and nobody in the journal"
    agent.answers["GET /v1/membership/explain/n9"] = (404, sentence)
    assert adsum("explain", "n9") == (3, "", f"adsum: {sentence}\n")


def test_a_node_must_be_named(adsum: Adsum) -> None:
    status, _out, err = adsum("explain")
    assert status == 2
    assert "NODE|kv/KEY|SESSION is missing" in err


KEY = {
    "Observer": "n1",
    "Key": "db/host",
    "Exists": True,
    "Revision": 14,
    "Version": 2,
    "Waiting": 1,
    "Summary": "db/host exists, at revision 14: changed through n2, 1 min ago.",
    "Story": [
        {"Time": "2026-11-18T14:58:01.120Z", "Revision": 12, "Sentence": "created through n1"},
        {"Time": "2026-11-18T14:58:09.500Z", "Revision": 14, "Sentence": "changed through n2"},
    ],
    "IsCut": False,
    "Floor": 0,
}


def test_a_key_is_explained_by_its_changes(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/explain/kv/db/host"] = KEY
    assert adsum("explain", "kv/db/host") == (
        0,
        (
            "db/host exists, at revision 14: changed through n2, 1 min ago. So says n1.\n"
            "  written 2 times since it was created, 1 request waiting here for a change\n"
            "\n"
            "  2026-11-18 14:58:01.120  revision 12: created through n1\n"
            "  2026-11-18 14:58:09.500  revision 14: changed through n2\n"
        ),
        "",
    )
    assert json.loads(adsum("explain", "kv/db/host", "-o=json").out) == KEY


def test_what_is_not_remembered_of_a_key_is_told(adsum: Adsum, agent: FakeAgent) -> None:
    gone = {"Exists": False, "Version": 0, "Waiting": 0, "Summary": "It is gone.", "IsCut": True, "Floor": 9}
    agent.answers["GET /v1/explain/kv/db/host"] = KEY | gone
    assert adsum("explain", "kv/db/host").out == (
        "It is gone. So says n1.\n"
        "  0 requests waiting here for a change\n"
        "\n"
        "  (there is more before these)\n"
        "  2026-11-18 14:58:01.120  revision 12: created through n1\n"
        "  2026-11-18 14:58:09.500  revision 14: changed through n2\n"
        "  (of what happened up to revision 9 not all is remembered)\n"
    )


def test_a_key_that_nobody_knows_is_not_found(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/explain/kv/x"] = (404, "There is no key x")
    assert adsum("explain", "kv/x") == (3, "", "adsum: There is no key x\n")
