"""Stories are told from what shipped cores record when trouble comes to a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable

from adsum.address import Address
from adsum.effects import LeaderChanged
from adsum.gossip.claims import Profile
from adsum.gossip.effects import (
    ConflictSeen,
    Effect,
    IsolationChanged,
    MemberChanged,
    Note,
    Noted,
    Refuser,
)
from adsum.gossip.evidence import ChangeCause, Evidence, Leg
from adsum.journal.entry import JournalEntry, Recorded, entry_of, start_of
from adsum.journal.story import sentence, story
from adsum.now import MILLISECOND, SECOND
from adsum.testing.clock import FIRST_WALL_MS
from adsum.testing.gossip_world import GossipWorld
from tests.observe.membership import (
    ALIVE,
    ALL_LEGS,
    DEAD,
    IDS,
    LEFT,
    PRUNED,
    SUSPECT,
    WALL_MS,
    failed,
    joined,
    name_of,
    profile,
    short,
    suspected,
    vetoed,
)

MEMBERS, OBSERVER, SUBJECT = 8, 0, 3


class Witnessed:
    """A cluster of eight, and what member 0 records about member 3."""

    def __init__(self) -> None:
        self.world = GossipWorld(MEMBERS, seed=5)
        self.entries: list[JournalEntry] = []
        self.world.watchers.append(self._watch)
        self.world.form()
        self.world.run_for(30 * SECOND)
        self.entries.clear()
        self.name = self.world.hosts[SUBJECT].profile.name

    def _watch(self, now_ns: int, host: int, effect: Effect) -> None:
        if host == OBSERVER and isinstance(effect, Recorded):
            me = self.world.hosts[OBSERVER].profile
            entry = entry_of(FIRST_WALL_MS + now_ns // MILLISECOND, effect, me, self._name_of)
            if entry.node.name == self.world.hosts[SUBJECT].profile.name:
                self.entries.append(entry)

    def _name_of(self, short_id: bytes) -> str:
        return next(host.profile.name for host in self.world.hosts if host.profile.short == short_id)

    def told(self) -> list[str]:
        return [sentence(entry) for entry in story(self.entries)]


def after(trouble: Callable[[GossipWorld], None], seconds: int = 60) -> Witnessed:
    witnessed = Witnessed()
    trouble(witnessed.world)
    witnessed.world.run_for(seconds * SECOND)
    return witnessed


def test_a_crash_is_told_from_the_accusation_to_the_refused_connections() -> None:
    witnessed = after(lambda world: world.kill(SUBJECT))
    first, *_between, last = witnessed.told()
    assert f" suspects {witnessed.name}: no answer to a datagram" in first
    assert f"{witnessed.name} is failed: its host refuses connections" in last


def test_a_lost_host_is_told_as_silence_with_its_accusers() -> None:
    witnessed = after(lambda world: world.lose(SUBJECT))
    told = witnessed.told()
    assert (
        f" suspects {witnessed.name}: no answer to a datagram, through helpers or on a stream; "
        "nobody takes a connection; phi " in told[0]
    )
    assert any(f"cannot reach {witnessed.name}: 2 confirmations." in each for each in told)
    assert f"{witnessed.name} is failed, by silence: no answer" in told[-1]
    assert " Accused by " in told[-1]
    assert witnessed.entries[-1].grounds.parts.challenge == 3.0


def test_a_pause_ends_with_the_refutation() -> None:
    witnessed = Witnessed()
    witnessed.world.pause(SUBJECT)
    witnessed.world.run_for(4 * SECOND)
    witnessed.world.resume(SUBJECT)
    witnessed.world.run_for(10 * SECOND)
    told = witnessed.told()
    assert f" suspects {witnessed.name}: " in told[0]
    assert told[-1] == f"{witnessed.name} refuted it: it is alive, in incarnation 1."


def entry(effect: Recorded, at_ms: int = 0) -> JournalEntry:
    return entry_of(WALL_MS + at_ms, effect, profile("n1"), name_of)


def changed(before: object, after: object, cause: ChangeCause) -> MemberChanged:
    return MemberChanged(profile("n3"), before, after, Evidence(cause))  # type: ignore[arg-type]


NO_GROUNDS = Evidence(ChangeCause.SUSPECTED)
RETURNED = changed(SUSPECT, ALIVE, ChangeCause.REFUTED)
DESCRIBED = changed(ALIVE, ALIVE, ChangeCause.CHANGED)


def test_only_the_last_trouble_is_told() -> None:
    entries = [
        entry(each) for each in (joined("n3"), suspected("n3"), RETURNED, suspected("n3"), failed("n3"))
    ]
    assert story(entries) == entries[3:]


def test_notes_shortly_before_the_trouble_belong_to_it_and_older_ones_do_not() -> None:
    old, close, trouble = entry(vetoed("n3"), 0), entry(vetoed("n3"), 50_000), entry(suspected("n3"), 70_000)
    assert story([old, close, trouble]) == [close, trouble]


def test_new_descriptions_do_not_interrupt_a_story_and_are_told_when_there_is_nothing_else() -> None:
    described, suspect = entry(DESCRIBED), entry(suspected("n3"))
    assert story([suspect, described]) == [suspect]
    assert story([described]) == [described]


def test_whose_the_suspicion_is_needs_no_second_sentence() -> None:
    suspect, raised = entry(suspected("n3", "n1")), entry(Noted(Note.RAISED, profile("n3"), NO_GROUNDS))
    assert story([suspect, raised]) == [suspect]


def test_who_was_only_accused_is_told_that() -> None:
    accused = entry(Noted(Note.ACCUSED_ME, profile("n1"), Evidence(ChangeCause.SUSPECTED, (short("n4"),))))
    assert story([accused]) == [accused]
    assert story([]) == []


def test_each_sentence_is_plain_english() -> None:
    """Literal, since people read them and nothing else does."""
    evidence = Evidence(ChangeCause.SUSPECTED, (short("n4"), short("n2")), legs=Leg.DIRECT)
    refused = Evidence(ChangeCause.REFUSED, (short("n4"),), (short("n4"), short("n1")), ALL_LEGS | Leg.ICMP)
    forced = Evidence(ChangeCause.FORCED, by=short("n2"))
    n3 = profile("n3")
    clone = Profile(IDS["n3"].bytes, "n3b", Address("10.0.0.9", 8301))
    twin = Profile(IDS["n4"].bytes, "n3c", Address("10.0.0.3", 8301))
    refuser = Refuser(short("n4"), profile("n4").address, short("n3"))
    stranger = Refuser(bytes(8), Address("10.0.0.7", 8301), short("n3"))
    namesake = Profile(IDS["n4"].bytes, "N3", Address("10.0.0.9", 8301))
    accused = Noted(
        Note.ACCUSED_ME, profile("n1"), Evidence(ChangeCause.SUSPECTED, (short("n4"),), legs=Leg.DIRECT)
    )
    told: dict[Recorded, str] = {
        joined("n3"): "n3 joined, at 10.0.0.3:8301.",
        changed(ALIVE, ALIVE, ChangeCause.RESTARTED): "n3 was restarted: a new process under the same id.",
        changed(DEAD, ALIVE, ChangeCause.RESTARTED): "n3 is back, as a new process at 10.0.0.3:8301.",
        DESCRIBED: "n3 describes itself anew.",
        suspected("n3", "n4"): (
            "n4 suspects n3: no answer to a datagram, through helpers or on a stream; phi 2.9."
        ),
        RETURNED: "n3 refuted it: it is alive, in incarnation 0.",
        failed("n3", "n4", "n2", "n1"): (
            "n3 is failed, by silence: no answer to a datagram, through helpers or on a stream; phi 2.9. "
            "Accused by n4, n2 and n1."
        ),
        MemberChanged(n3, SUSPECT, DEAD, refused): (
            "n3 is failed: its host refuses connections, so the host is up and the process is not. "
            "Accused by n4."
        ),
        MemberChanged(n3, None, DEAD, Evidence(ChangeCause.SILENT)): (
            "n3 was already failed when we first heard of it, by silence: no reason was given."
        ),
        changed(ALIVE, LEFT, ChangeCause.LEFT): "n3 left in good order.",
        MemberChanged(n3, DEAD, LEFT, forced): "n2 had n3 leave, with force-leave.",
        changed(
            DEAD, None, ChangeCause.REPLACED
        ): "n3 is no longer listed: another member took over its name or its address.",
        changed(DEAD, None, ChangeCause.REAPED): "n3 was forgotten: it has been failed for long enough.",
        Noted(Note.CONFIRMED, n3, evidence): "By now n4 and n2 cannot reach n3: 1 confirmation.",
        Noted(Note.RAISED, n3, evidence): "The suspicion of n3 is this agent's own.",
        vetoed("n3"): (
            "A probe of n3 failed (no answer to a datagram), yet a newer heartbeat counter of it came by way "
            "of others: the process runs, packets between here and there get lost. Nobody was accused."
        ),
        Noted(Note.WITNESSED, n3, evidence): (
            "The heartbeat counter of n3 has stood still for longer than almost any other: that counts as "
            "one more confirmation."
        ),
        Noted(Note.WITHHELD, n3, Evidence(ChangeCause.SUSPECTED, legs=ALL_LEGS)): (
            "A probe of n3 failed (no answer to a datagram, through helpers or on a stream), but so do too "
            "many of this agent's probes, or its accusations were refuted: it accused nobody."
        ),
        accused: "n4 accused n1 (no answer to a datagram), which refuted it.",
        changed(ALIVE, None, ChangeCause.REBORN): (
            "n3 lost its data folder: a new process at 10.0.0.3:8301 has another node id."
        ),
        changed(ALIVE, None, ChangeCause.CROWDED_OUT): (
            "n3 was forgotten to make room: as many members are listed as may be, and it never answered this "
            "agent, or is gone."
        ),
        Noted(Note.UNANSWERED, n3, Evidence(ChangeCause.SUSPECTED)): (
            "n3 was told of by a stranger, and not let in: it did not answer at 10.0.0.3:8301, the address "
            "that it advertises."
        ),
        Noted(Note.RESTARTING, n3, Evidence(ChangeCause.CHANGED)): "n3 announced that it restarts.",
        ConflictSeen(n3, clone): (
            f"Two agents have the node id {IDS['n3']}: n3 at 10.0.0.3:8301 and n3b at 10.0.0.9:8301. "
            "The latter is not let in."
        ),
        ConflictSeen(n3, twin): "Two agents advertise the address 10.0.0.3:8301: n3 and n3c.",
        ConflictSeen(n3, n3): (
            "Another member goes by the name or the id of n3 at 10.0.0.3:8301, and does not let it in."
        ),
        ConflictSeen(n3, clone, is_contested=True): (
            f"Two agents have the node id {IDS['n3']}: n3 at 10.0.0.3:8301 and n3b at 10.0.0.9:8301. "
            "Neither lets the other in."
        ),
        ConflictSeen(n3, namesake, refuser): (
            "N3 itself, at 10.0.0.9:8301, is not let in: n3 at 10.0.0.3:8301 has its name, says n4 at "
            "10.0.0.4:8301."
        ),
        ConflictSeen(namesake, namesake, refuser): (
            "N3 itself, at 10.0.0.9:8301, is not let in: another member has its name, says n4 at "
            "10.0.0.4:8301."
        ),
        ConflictSeen(clone, clone, stranger): (
            "n3b itself, at 10.0.0.9:8301, is not let in: another member has its node id, says the member at "
            "10.0.0.7:8301."
        ),
        MemberChanged(n3, LEFT, PRUNED, forced): "n2 had n3 pruned: it is no longer listed.",
        ConflictSeen(n3, namesake): (
            f"Two members are called n3: {IDS['n3']} at 10.0.0.3:8301 and {IDS['n4']} at 10.0.0.9:8301. "
            "The latter is not let in."
        ),
        IsolationChanged(is_isolated=True): (
            "n1 itself is isolated: more than half of its last probes failed."
        ),
        IsolationChanged(is_isolated=False): "n1 reaches others again.",
        led(is_leading=True, cause="elected"): "n3 leads the servers, in term 7.",
        led(is_leading=False, cause=""): "n3 leads no longer, after term 7.",
        led(is_leading=False, cause="handed-over"): (
            "n3 leads no longer, after term 7: it handed leadership over."
        ),
        led(is_leading=False, cause="leader-silent"): (
            "n3 leads no longer, after term 7: this agent heard nothing of it within the election timeout."
        ),
    }
    assert [sentence(entry(effect)) for effect in told] == list(told.values())


def led(*, is_leading: bool, cause: str) -> LeaderChanged:
    return LeaderChanged(b"n3" * 8, "n3", Address("10.0.0.3", 8301), is_leading, 7, cause)


def test_the_observer_s_start_is_told() -> None:
    assert sentence(start_of(WALL_MS, profile("n1"))) == (
        "n1 itself started: from here on it learns again who is there."
    )


def test_refused_connections_are_not_told_as_silence_on_the_stream() -> None:
    refused = Evidence(
        ChangeCause.SUSPECTED, (short("n4"),), (short("n4"), short("n2")), ALL_LEGS | Leg.ICMP, 1.5
    )
    assert sentence(entry(MemberChanged(profile("n3"), ALIVE, SUSPECT, refused))) == (
        "n4 suspects n3: no answer to a datagram or through helpers; a datagram came back as undeliverable; "
        "connections refused to n4 and n2; phi 1.5."
    )


def test_every_cause_and_every_note_has_a_sentence_of_its_own() -> None:
    for cause in ChangeCause:
        assert f"({cause.value})" not in sentence(entry(changed(ALIVE, ALIVE, cause))), cause
    for note in Note:
        noted = entry(Noted(note, profile("n3"), Evidence(ChangeCause.CHANGED)))
        assert sentence(noted) != f"About n3: {noted.note}.", note
