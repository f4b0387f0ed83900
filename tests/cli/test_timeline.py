from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest

from adsum.gossip.effects import Note
from adsum.journal.entry import note_word
from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

TIMELINE = "GET /v1/membership/timeline"


def entry(sequence: int, node: str, after: str, sentence: str, **fields: object) -> dict[str, object]:
    return {
        "Sequence": sequence,
        "Observer": "n1",
        "Time": f"2026-11-18T14:58:{sequence:02}.120Z",
        "Kind": "change",
        "ID": "u-3",
        "Node": node,
        "Address": "10.0.0.3:8301",
        "From": "alive",
        "To": after,
        "Cause": "suspected",
        "Note": "",
        "Incarnation": 0,
        "Phi": 2.9,
        "Sentence": sentence,
        **fields,
    }


def answer(*entries: dict[str, object], is_cut: bool = False) -> dict[str, object]:
    held = entries[0]["Time"] if entries else None
    return {"Observer": "n1", "HeldSince": held, "IsCut": is_cut, "Entries": list(entries)}


SUSPECTED = entry(1, "n3", "suspect", "n1 suspects n3: no answer to a datagram.")
NOTED = entry(2, "n3", "", "The suspicion of n3 is this agent's own.", Kind="note", Note="raised")
FAILED = entry(3, "n30", "failed", "n30 is failed, by silence.", Cause="silent")


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def three(agent: FakeAgent) -> FakeAgent:
    agent.answers[TIMELINE] = answer(SUSPECTED, NOTED, FAILED)
    return agent


def test_the_timeline_is_a_table_in_local_time(adsum: Adsum, three: FakeAgent) -> None:
    assert adsum("timeline") == (
        0,
        (
            "Time                     Node  Status    What happened\n"
            "2026-11-18 14:58:01.120  n3    suspect   n1 suspects n3: no answer to a datagram.\n"
            "2026-11-18 14:58:02.120  n3    (raised)  The suspicion of n3 is this agent's own.\n"
            "2026-11-18 14:58:03.120  n30   failed    n30 is failed, by silence.\n"
        ),
        "",
    )
    assert three.asked[0].query == {"limit": "50"}


def test_the_terminal_s_own_zone_counts(
    adsum: Adsum, three: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    assert "2026-11-18 23:58:01.120  n3" in adsum("timeline").out


def test_what_is_asked_for_reaches_the_agent(adsum: Adsum, three: FakeAgent) -> None:
    adsum("timeline", "-since", "1h", "-until=5m", "-node", "n3", "-limit=7")
    assert three.asked[0].query == {"since": "1h", "until": "5m", "node": "n3", "limit": "7"}


def test_a_wide_table_has_cause_phi_incarnation_and_observer(adsum: Adsum, three: FakeAgent) -> None:
    heading, first, *_rest = adsum("timeline", "-o", "wide").out.splitlines()
    assert re.split(r"\s{2,}", heading) == [
        *("Time", "Node", "Status", "Cause", "Phi", "Incarnation", "Observer", "What happened"),
    ]
    assert "suspected  2.9  0" in first


def test_programs_get_the_entries_as_they_are(adsum: Adsum, three: FakeAgent) -> None:
    assert json.loads(adsum("timeline", "-o=json").out) == [SUSPECTED, NOTED, FAILED]


def test_no_entries_are_said_to_people_and_are_no_failure(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[TIMELINE] = answer() | {"HeldSince": "2026-11-18T09:00:00.000Z"}
    assert adsum("timeline", "-node=n9") == (
        0,
        "",
        "Nothing like that is in the journal of n1, which goes back to 2026-11-18 09:00:00.000.\n",
    )
    agent.answers[TIMELINE] = answer()
    assert adsum("timeline").err == "Nothing like that is in the journal of n1.\n"


def test_a_cut_is_said(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[TIMELINE] = answer(FAILED, is_cut=True)
    assert adsum("timeline", "-limit=1").err == "There is more before these: -limit and -until show it.\n"


def test_a_wrong_time_is_a_matter_of_usage_in_the_agent_s_words(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[TIMELINE] = (400, '"soon" is no value for since: 90m and 36h count back from now')
    status, out, err = adsum("timeline", "-since=soon")
    assert (status, out) == (2, "")
    assert '"soon" is no value for since' in err


def test_watching_goes_on_from_the_last_entry_until_the_agent_ends(
    adsum: Adsum, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [answer(SUSPECTED), answer(), answer(NOTED, FAILED), (500, "the agent ends")]
    monkeypatch.setattr(agent, "answer", lambda asked: give(agent, asked, answers.pop(0)), raising=True)
    status, out, err = adsum("timeline", "-watch", "-node=n3")
    assert (status, err) == (1, "adsum: the agent ends\n")
    assert out == (
        "2026-11-18 14:58:01.120  n3            suspect       n1 suspects n3: no answer to a datagram.\n"
        "2026-11-18 14:58:02.120  n3            (raised)      The suspicion of n3 is this agent's own.\n"
        "2026-11-18 14:58:03.120  n30           failed        n30 is failed, by silence.\n"
    )
    assert [asked.query.get("after") for asked in agent.asked] == [None, "1", "1", "3"]
    assert agent.asked[1].query == {"node": "n3", "after": "1", "wait": "20s"}


def test_what_is_watched_stays_aligned_whatever_comes(
    adsum: Adsum, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = [entry(n, "n3", "", "S", Note=note_word(note)) for n, note in enumerate(Note, 1)]
    long = entry(40, "a-long-name\x1b-of-a-node", "alive", "S")
    answers = [answer(*notes), answer(long, FAILED), answer(FAILED), (500, "the agent ends")]
    monkeypatch.setattr(agent, "answer", lambda asked: give(agent, asked, answers.pop(0)))
    lines = adsum("timeline", "-watch").out.splitlines()
    before, after = lines[: len(notes)], lines[len(notes) :]
    assert len({line.index("  S") for line in before}) == 1
    assert (
        len({line.index(word) for line, word in zip(after, ("alive", "failed", "failed"), strict=True)}) == 1
    )


def give(agent: FakeAgent, asked: object, given: object) -> tuple[int, bytes]:
    agent.asked.append(asked)  # type: ignore[arg-type]
    if isinstance(given, tuple):
        return given[0], given[1].encode()
    return 200, json.dumps(given).encode()


def test_watching_for_programs_is_an_object_a_line(
    adsum: Adsum, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [answer(SUSPECTED), answer(FAILED), (500, "the agent ends")]
    monkeypatch.setattr(agent, "answer", lambda asked: give(agent, asked, answers.pop(0)))
    lines = adsum("timeline", "-watch", "-o=jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == [SUSPECTED, FAILED]


def test_watching_as_json_in_one_piece_is_refused(adsum: Adsum, agent: FakeAgent) -> None:
    status, out, err = adsum("timeline", "-watch", "-o=json")
    assert (status, out) == (2, "")
    assert "JSON in one piece has an end: say -o=jsonl" in err
    assert agent.asked == []


def test_watching_until_a_time_is_refused(adsum: Adsum) -> None:
    status, _out, err = adsum("timeline", "-watch", "-until=1h")
    assert status == 2
    assert "leave one of them out" in err


def test_a_name_cannot_steer_the_terminal(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[TIMELINE] = answer(entry(1, "n\x1b[2J", "alive", "n\x1b[2J joined."))
    assert "\x1b" not in adsum("timeline").out
