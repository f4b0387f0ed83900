"""The roll for people: its state, its timeline, and why one node is as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
import trio

from adsum.address import Address
from adsum.gossip import claims, evidence, wire
from adsum.gossip.claims import Alive, DeathCause, Profile
from adsum.gossip.commands import Datagram, ForceLeave
from adsum.gossip.effects import IsolationChanged, MemberChanged, Send
from adsum.gossip.rtt import Path
from adsum.now import MILLISECOND, SECOND
from adsum.version import ADSUM_VERSION
from tests.api.agents import NODE_ID, Asker, refused
from tests.gossip.support import forget, isolate

Answer = dict[str, Any]


@pytest.fixture
def asker() -> Asker:
    return Asker()


async def told(asker: Asker, target: str) -> Answer:
    found = await asker.json(target)
    assert isinstance(found, dict)
    return found


async def members(asker: Asker) -> list[Answer]:
    found: list[Answer] = (await told(asker, "/v1/membership"))["Members"]
    return found


async def member(asker: Asker, name: str) -> Answer:
    return next(each for each in await members(asker) if each["Name"] == name)


async def entries(asker: Asker, query: str = "") -> list[Answer]:
    found: list[Answer] = (await told(asker, f"/v1/membership/timeline{query}"))["Entries"]
    return found


def accuse(asker: Asker, subject: Alive, *accusers: Alive) -> claims.Suspect:
    shorts = tuple(each.subject for each in accusers)
    claim = claims.suspect(subject.subject, 1, 0, shorts, legs=1 | 2 | 4, phi_tenths=29)
    asker.agent.hear(subject.encoded, claim.encoded)
    return claim


def gossip(asker: Asker, sender: Alive, claim: bytes) -> None:
    """In a datagram, whose verdicts are believed; those of an exchange are only grounds to ask."""
    message = wire.header(sender.subject, 1) + wire.encode(
        wire.Packet(wire.PacketKind.GOSSIP, claims=[claim])
    )
    asker.agent.hear_datagram(Datagram(sender.profile.address, message, is_authentic=True))


# The state.


async def test_alone_an_agent_lists_itself_with_every_field(asker: Asker) -> None:
    """Literal: the documented fields in their documented order."""
    found = await asker.json("/v1/membership")
    assert found == {
        "Observer": "n1",
        "ObserverID": "6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01",
        "IsIsolated": False,
        "HoldsLastKnown": False,
        "LocalHealth": 0,
        "Conflict": None,
        "Stale": None,
        "Clock": {"AheadSeconds": 0.0, "ComparedWith": 0, "Sentence": ""},
        "Servers": [{"ID": NODE_ID, "Name": "n1", "Role": "leader"}],
        "Members": [
            {
                "ID": "6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01",
                "Name": "n1",
                "Address": "127.0.0.1:8301",
                "Version": ADSUM_VERSION,
                "Status": "alive",
                "Self": True,
                "Generation": 1,
                "Incarnation": 1,  # it has told that it leads
                "ChangedAgoMS": None,
                "Phi": 0.0,
                "PhiParts": {"Challenge": 0.0, "Schedule": 0.0, "Accusation": 0.0},
                "HeardAgoMS": None,
                "CounterAgoMS": None,
                "RoundTripMS": None,
                "DistanceMS": None,
                "Path": None,
                "FailedLegs": [],
                "Suspicion": None,
                "RestartingForMS": None,
            }
        ],
    }
    assert isinstance(found, dict)
    assert list(found["Members"][0])[:5] == ["ID", "Name", "Address", "Version", "Status"]


async def test_members_are_sorted_by_name_whatever_their_case(asker: Asker) -> None:
    for name in ("web2", "Web1", "db1"):
        asker.agent.meet(name)
    assert [each["Name"] for each in await members(asker)] == ["db1", "n1", "Web1", "web2"]


async def test_a_suspicion_is_shown_with_accusers_and_the_time_that_is_left(asker: Asker) -> None:
    n2, n3, n4 = (asker.agent.meet(name) for name in ("n2", "n3", "n4"))
    accuse(asker, n3, n2, n4)
    row = await member(asker, "n3")
    assert row["Status"] == "suspect"
    assert row["FailedLegs"] == ["direct", "indirect", "stream"]
    suspicion = row["Suspicion"]
    assert [each["Name"] for each in suspicion["Accusers"]] == ["n2", "n4"]
    assert (suspicion["Confirmations"], suspicion["ConfirmationsWanted"]) == (1, 2)
    assert 4_000 < suspicion["TimeLeftMS"] < 24_000
    assert row["PhiParts"]["Challenge"] == 2.9
    assert row["Phi"] >= 2.9


async def test_a_path_is_shown_as_far_as_it_is_known(asker: Asker) -> None:
    asker.agent.meet("n2")
    assert (await member(asker, "n2"))["Path"] is None
    path = Path()
    path.last_rtts_s, path.is_direct_ok = (0.004, 0.002, 0.0035), False
    path.heard_ns = asker.agent.now().monotonic_ns - 90 * SECOND
    known = asker.agent.cluster.membership.member_named("n2")
    assert known is not None
    known.path = path
    row = await member(asker, "n2")
    assert (row["RoundTripMS"], row["Path"], row["FailedLegs"]) == (3.5, "detour", ["direct"])
    assert row["HeardAgoMS"] // 1_000 == 90
    assert row["DistanceMS"] is None


async def test_an_announced_restart_counts_down(asker: Asker) -> None:
    asker.agent.meet("n2")
    known = asker.agent.cluster.membership.member_named("n2")
    assert known is not None
    known.restarting_until_ns = asker.agent.now().monotonic_ns + 5_000 * MILLISECOND
    left_ms = (await member(asker, "n2"))["RestartingForMS"]
    assert 4_900 < left_ms <= 5_000
    explained = await told(asker, "/v1/membership/explain/n2")
    assert explained["Next"].startswith("Wait: it announced a restart")


async def test_the_pruned_are_not_listed(asker: Asker) -> None:
    asker.agent.meet("n2")
    asker.agent.obey(ForceLeave("n2", is_pruned=True))
    assert [each["Name"] for each in await members(asker)] == ["n1"]


# The timeline.


async def test_the_timeline_tells_oldest_first_with_grounds_and_a_sentence(asker: Asker) -> None:
    n2, n3 = asker.agent.meet("n2"), asker.agent.meet("n3")
    accuse(asker, n3, n2)
    found = await told(asker, "/v1/membership/timeline")
    assert (found["Observer"], found["IsCut"]) == ("n1", False)
    assert found["HeldSince"] == found["Entries"][0]["Time"]
    assert [(each["Node"], each["From"], each["To"], each["Cause"]) for each in found["Entries"]] == [
        ("n2", "unknown", "alive", "joined"),
        ("n3", "unknown", "alive", "joined"),
        ("n3", "alive", "suspect", "suspected"),
    ]
    last = found["Entries"][-1]
    assert last["Accusers"] == [{"ID": last["Accusers"][0]["ID"], "Name": "n2"}]
    assert last["FailedLegs"] == ["direct", "indirect", "stream"]
    assert last["Sentence"].startswith("n2 suspects n3: no answer to a datagram")
    assert last["Time"].startswith("2027-01-15T08:00:00.")


async def test_an_entry_has_every_field_whatever_it_tells(asker: Asker) -> None:
    asker.agent.meet("n2")
    (entry,) = await entries(asker)
    assert list(entry) == [
        *("Sequence", "Observer", "Time", "Kind", "ID", "Node", "Address", "From", "To", "Cause", "Note"),
        *("Generation", "Incarnation", "Term", "Accusers", "Confirmations", "Refusers", "FailedLegs", "Phi"),
        *("PhiParts", "By", "Other", "Repeats", "Sentence"),
    ]


async def test_the_timeline_is_chosen_by_node_and_limit(asker: Asker) -> None:
    for name in ("n2", "n3", "n4"):
        asker.agent.meet(name)
    assert [each["Node"] for each in await entries(asker, "?node=N3")] == ["n3"]
    assert [each["Node"] for each in await entries(asker, "?limit=2")] == ["n3", "n4"]
    assert (await told(asker, "/v1/membership/timeline?limit=2"))["IsCut"]
    assert await entries(asker, "?node=nobody") == []


async def test_since_and_until_take_durations_and_times(asker: Asker) -> None:
    asker.agent.meet("n2")
    asker.agent.wall_ms += 3_600_000
    asker.agent.meet("n3")
    assert [each["Node"] for each in await entries(asker, "?since=30m")] == ["n3"]
    assert [each["Node"] for each in await entries(asker, "?since=-30m")] == ["n3"]
    assert [each["Node"] for each in await entries(asker, "?until=30m")] == ["n2"]
    assert [each["Node"] for each in await entries(asker, "?since=2h&until=30m")] == ["n2"]
    assert [each["Node"] for each in await entries(asker, "?since=2027-01-15T08:30:00Z")] == ["n3"]
    assert [each["Node"] for each in await entries(asker, "?until=2027-01-15T10:30:00%2B02:00")] == ["n2"]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("since=yesterday", '"yesterday" is no value for since: 90m and 36h count back from now, '),
        ("until=2027-01-15T08:30:00", "is no value for until"),
        ("limit=0", 'limit must be a number from 1 to 5000, not "0"'),
        ("limit=5001", "limit must be a number from 1 to 5000"),
        ("limit=many", "limit must be a number"),
        ("after=-1", "after must be a number"),
        ("wait=long&after=1", "Invalid value for wait"),
    ],
)
async def test_a_question_that_makes_no_sense_is_told_what_would(
    asker: Asker, query: str, sentence: str
) -> None:
    status, text = refused(await asker.ask(f"/v1/membership/timeline?{query}"))
    assert status == 400
    assert sentence in text


async def test_who_follows_is_answered_when_there_is_news(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker.agent.meet("n2")
    journal, waits = asker.agent.journal, trio.Event()
    watch = journal.watch

    def watch_and_tell(wake: Callable[[], None]) -> None:
        watch(wake)
        waits.set()

    monkeypatch.setattr(journal, "watch", watch_and_tell)
    found: list[Answer] = []

    async def follow() -> None:
        found.extend(await entries(asker, "?after=1&wait=10m"))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await waits.wait()
            asker.agent.meet("n3")
    assert [(each["Sequence"], each["Node"]) for each in found] == [(2, "n3")]
    assert not journal._watchers


async def test_who_follows_in_vain_gets_nothing_after_the_wait() -> None:
    asker = Asker()
    asker.agent.meet("n2")
    assert await entries(asker, "?after=1&wait=10ms") == []
    assert not asker.agent.journal._watchers


# Why.


async def test_a_suspected_member_is_explained_by_its_accusation(asker: Asker) -> None:
    n2, n3 = asker.agent.meet("n2"), asker.agent.meet("n3")
    accuse(asker, n3, n2)
    found = await told(asker, "/v1/membership/explain/N3")
    assert list(found) == [
        *("Observer", "Stale", "Node", "Status", "Summary", "Story", "Next", "Member", "Entries"),
    ]
    assert (found["Node"], found["Status"], found["Member"]["Name"]) == ("n3", "suspect", "n3")
    assert found["Summary"].startswith("n3 has been suspected for 0.0 s; ")
    assert [step["Sentence"].partition(":")[0] for step in found["Story"]] == ["n2 suspects n3"]
    assert found["Next"].startswith("Wait: it has ")
    assert [each["Cause"] for each in found["Entries"]] == ["joined", "suspected"]


async def test_a_failed_member_is_explained_by_its_verdict(asker: Asker) -> None:
    n2, n3 = asker.agent.meet("n2"), asker.agent.meet("n3", "127.0.0.3")
    accusation = claims.suspect(n3.subject, 1, 0, (n2.subject,), refusers=(n2.subject,), legs=7)
    gossip(asker, n2, accusation.encoded)
    gossip(asker, n2, claims.dead(accusation, DeathCause.REFUSED).encoded)
    asker.agent.wall_ms += 120_000
    found = await told(asker, "/v1/membership/explain/n3")
    assert found["Summary"] == "n3 has been failed for 2 min."
    assert [step["Sentence"] for step in found["Story"]] == [
        "n2 suspects n3: no answer to a datagram or through helpers; connections refused to n2.",
        (
            "n3 is failed: its host refuses connections, so the host is up and the process is not. "
            "Accused by n2."
        ),
    ]
    assert found["Next"].startswith("Its host is up: see there why the agent ended")
    assert found["Member"]["FailedLegs"] == ["direct", "indirect", "stream"]


async def test_isolation_of_the_observer_belongs_to_every_story_it_bears_on(asker: Asker) -> None:
    n2, n3 = asker.agent.meet("n2"), asker.agent.meet("n3")
    accuse(asker, n3, n2)
    asker.agent.journal.record(asker.agent.now(), IsolationChanged(is_isolated=True))
    isolate(asker.agent.cluster.gossip)
    found = await told(asker, "/v1/membership/explain/n3")
    assert found["Story"][-1]["Sentence"].startswith("n1 itself is isolated")
    assert found["Next"].startswith("This agent reaches less than half of the others")
    assert (await told(asker, "/v1/membership"))["IsIsolated"]
    mine = await told(asker, "/v1/membership/explain/n1")
    assert mine["Summary"] == "n1 is this agent itself, and reaches less than half of the others."
    assert mine["Next"].startswith("Look at this host's network")


async def test_a_member_is_found_by_its_id_too(asker: Asker) -> None:
    asker.agent.meet("n2")
    node_id = (await member(asker, "n2"))["ID"]
    assert (await told(asker, f"/v1/membership/explain/{node_id}"))["Node"] == "n2"


async def test_this_agent_explains_itself(asker: Asker) -> None:
    found = await told(asker, "/v1/membership/explain/n1")
    assert (found["Summary"], found["Story"], found["Next"]) == ("n1 is this agent itself.", [], "Nothing.")


async def test_one_that_was_pruned_is_explained_by_who_did_it(asker: Asker) -> None:
    asker.agent.meet("n2")
    asker.agent.obey(ForceLeave("n2", is_pruned=True))
    found = await told(asker, "/v1/membership/explain/n2")
    assert found["Status"] == "left"
    assert found["Summary"] == "n2 was pruned 0.0 s ago."
    assert found["Story"][-1]["Sentence"] == "n1 had n2 pruned: it is no longer listed."


async def test_a_conflict_that_stands_is_in_the_headline_and_decides_what_is_next(asker: Asker) -> None:
    asker.agent.meet("n2", "127.0.0.2")
    holder = asker.agent.cluster.membership.member_named("n2")
    assert holder is not None
    newcomer = Profile(bytes(range(16)), "n2", Address("127.0.0.9", 8301))
    effects = asker.agent.hear(claims.alive(newcomer, 2, 0).encoded)
    (ping,) = [wire.decode(each.message[wire.HEADER_BYTES :]) for each in effects if isinstance(each, Send)]
    ack = wire.header(holder.short, 1) + wire.encode(wire.Packet(wire.PacketKind.ACK, sequence=ping.sequence))
    asker.agent.hear_datagram(Datagram(holder.profile.address, ack, is_authentic=True))
    found = await told(asker, "/v1/membership/explain/n2")
    assert found["Summary"] == (
        "n2 has been alive for 0.0 s. Its name is claimed by n2 at 127.0.0.9:8301 as well, "
        "which is not let in."
    )
    assert found["Next"] == (
        "Give one of the two, n2 at 127.0.0.2:8301 and n2 at 127.0.0.9:8301, another node_name, "
        "and restart it."
    )
    newcomer_id = str(UUID(bytes=newcomer.node_id))
    of_newcomer = await told(asker, f"/v1/membership/explain/{newcomer_id}")
    assert "It is not let in: n2 at 127.0.0.2:8301 has its name." in of_newcomer["Summary"]


async def test_an_agent_that_is_not_let_in_says_so_of_itself(asker: Asker) -> None:
    n2 = asker.agent.meet("n2", "127.0.0.2")
    refusal = wire.header(n2.subject, 1) + wire.encode(
        wire.Packet(wire.PacketKind.REFUSAL, about=bytes(8), flags=wire.PacketFlag.CONFLICT)
    )
    asker.agent.hear_datagram(Datagram(n2.profile.address, refusal, is_authentic=True))
    rival = Profile(bytes(16), "N1", Address("127.0.0.9", 8301))
    asker.agent.hear(claims.alive(rival, 1, 0).encoded)
    explained = await told(asker, "/v1/membership/explain/n1")
    refused_by_n2 = "It is not let in: N1 at 127.0.0.9:8301 has its name, says n2 at 127.0.0.2:8301."
    assert explained["Summary"] == f"n1 is this agent itself. {refused_by_n2}"
    assert explained["Next"] == (
        "Give one of the two, N1 at 127.0.0.9:8301 and n1 at 127.0.0.1:8301, another node_name, and restart "
        "it. It is taken in by itself when the other is gone."
    )
    assert (await told(asker, "/v1/membership?observer"))["Conflict"] == {
        "IsLetIn": False,
        "Sentence": (
            "n1 itself, at 127.0.0.1:8301, is not let in: N1 at 127.0.0.9:8301 has its name, says n2 at "
            "127.0.0.2:8301."
        ),
        "Next": explained["Next"],
    }


async def test_who_asks_for_the_observer_alone_gets_no_members(asker: Asker) -> None:
    asker.agent.meet("n2")
    found = await told(asker, "/v1/membership?observer")
    assert [each["Name"] for each in found["Members"]] == ["n1"]


async def test_one_that_the_roll_forgot_is_explained_from_the_journal(asker: Asker) -> None:
    asker.agent.meet("n2")
    known = forget(asker.agent.cluster.gossip, "n2")
    reaped = MemberChanged(
        known.profile, known.standing, None, evidence.Evidence(evidence.ChangeCause.REAPED)
    )
    asker.agent.journal.record(asker.agent.now(), reaped)
    asker.agent.wall_ms += 600_000
    found = await told(asker, "/v1/membership/explain/n2")
    assert (found["Status"], found["Member"]) == ("forgotten", None)
    assert found["Summary"] == "n2 is no member here; it has been gone for 10 min."


async def test_one_whom_only_a_life_before_met_is_not_called_gone(asker: Asker) -> None:
    asker.agent.meet("n2")
    forget(asker.agent.cluster.gossip, "n2")
    found = await told(asker, "/v1/membership/explain/n2")
    assert found["Summary"] == "n2 is no member here: this agent has not met it since it started itself."
    assert "`adsum join` from here" in found["Next"]


async def test_one_whom_nobody_knows_is_404_with_what_to_do(asker: Asker) -> None:
    assert refused(await asker.ask("/v1/membership/explain/n9")) == (
        404,
        "No member is called n9, and nobody in the journal; see `adsum members`",
    )
    assert (await asker.ask("/v1/membership/explain/")).status == 400


async def test_one_that_is_a_service_and_no_member_is_404_with_what_to_ask_instead(asker: Asker) -> None:
    asker.agent.put_service("web1", "web")
    assert refused(await asker.ask("/v1/membership/explain/web")) == (
        404,
        "No member is called web, but a service is: `adsum health web` shows where it runs and how it is",
    )


async def test_thousands_of_members_are_listed_in_turns(asker: Asker) -> None:
    """Others get the loop in between, so nothing here may rely on the roll standing still."""
    for place in range(600):
        asker.agent.meet(f"m{place:03}")
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        assert len(await members(asker)) == 601
        nursery.cancel_scope.cancel()
    assert turns
