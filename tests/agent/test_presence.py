"""What the catalog shows of the roll, by literal changes."""

from __future__ import annotations

from adsum.address import Address
from adsum.agent import tags
from adsum.agent.presence import Presence, uuid_bytes, uuid_text
from adsum.agent.tags import Tags
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import SERF_HEALTH, Service
from adsum.catalog.view import View
from adsum.gossip.claims import Profile
from adsum.gossip.effects import MemberChanged
from adsum.gossip.evidence import ChangeCause, Evidence
from adsum.gossip.order import Departure, Rank, Standing
from adsum.now import SECOND, Now

NOW = Now(1_000 * SECOND, 1_800_000_000_000)
ME = "00000000-0000-0000-0000-000000000001"
ALIVE = Standing(1, Departure.NONE, 0, Rank.ALIVE)
SUSPECT = Standing(1, Departure.NONE, 0, Rank.SUSPECT)
DEAD = Standing(1, Departure.NONE, 0, Rank.DEAD)
LEFT = Standing(1, Departure.LEFT, 0, Rank.DEAD)


class Stage:
    def __init__(self) -> None:
        self.view = View(NOW, tag=1)
        self.presence = Presence(self.view, ME, "dc1")

    def change(self, who: Profile, after: Standing | None, cause: ChangeCause, *, at: Now = NOW) -> None:
        self.presence.changed(at, MemberChanged(who, None, after, Evidence(cause)))

    def health(self, name: str) -> CheckStatus | None:
        host = self.view.node(name)
        check = host.checks.get(SERF_HEALTH) if host is not None else None
        return check.value.status if check is not None else None

    def names(self) -> list[str]:
        return [host.name for host in self.view.nodes()]


def member(name: str, number: int = 2, host: str = "10.0.0.2") -> Profile:
    described = tags.encode(Tags(datacenter="dc7"))
    return Profile(number.to_bytes(16), name, Address(host, 8301), described)


def test_a_member_that_joins_is_a_healthy_node() -> None:
    stage = Stage()
    stage.change(member("web"), ALIVE, ChangeCause.JOINED)
    host = stage.view.node("web")
    assert host is not None
    assert host.owner == "00000000-0000-0000-0000-000000000002"
    assert host.node.value.address == "10.0.0.2"
    assert host.node.value.datacenter == "dc7"
    assert stage.health("web") is CheckStatus.PASSING


def test_a_suspicion_hides_nothing() -> None:
    stage = Stage()
    stage.change(member("web"), ALIVE, ChangeCause.JOINED)
    index = stage.view.index
    stage.change(member("web"), SUSPECT, ChangeCause.SUSPECTED)
    assert stage.health("web") is CheckStatus.PASSING
    assert stage.view.index == index


def test_one_that_failed_stays_listed_and_is_critical() -> None:
    stage = Stage()
    stage.change(member("web"), ALIVE, ChangeCause.JOINED)
    stage.change(member("web"), DEAD, ChangeCause.SILENT)
    assert stage.health("web") is CheckStatus.CRITICAL
    stage.change(member("web"), ALIVE, ChangeCause.RESTARTED)
    assert stage.health("web") is CheckStatus.PASSING


def test_one_that_left_is_gone_with_what_was_on_it() -> None:
    stage = Stage()
    stage.change(member("web"), ALIVE, ChangeCause.JOINED)
    stage.view.put_service(NOW, "web", Service(service_id="s1", name="shop"))
    stage.change(member("web"), LEFT, ChangeCause.LEFT)
    assert stage.names() == []
    assert stage.view.instances("shop") == ()


def test_one_that_is_forgotten_is_gone() -> None:
    stage = Stage()
    stage.change(member("web"), DEAD, ChangeCause.SILENT)
    stage.change(member("web"), None, ChangeCause.REAPED)
    assert stage.names() == []


def test_who_takes_over_the_name_of_a_dead_member_replaces_it() -> None:
    stage = Stage()
    stage.change(member("web", 2), DEAD, ChangeCause.SILENT)
    stage.change(member("web", 3, "10.0.0.3"), ALIVE, ChangeCause.JOINED)
    host = stage.view.node("web")
    assert host is not None
    assert (host.owner, host.node.value.address) == ("00000000-0000-0000-0000-000000000003", "10.0.0.3")
    stage.change(member("web", 2), None, ChangeCause.REPLACED)
    assert stage.names() == ["web"]


def test_a_renamed_member_is_listed_once() -> None:
    stage = Stage()
    stage.change(member("web"), ALIVE, ChangeCause.JOINED)
    stage.change(member("shop"), ALIVE, ChangeCause.CHANGED)
    assert stage.names() == ["shop"]


def test_i_am_not_shown_by_hearsay() -> None:
    stage = Stage()
    stage.change(Profile(uuid_bytes(ME), "me", Address("10.0.0.1", 8301)), LEFT, ChangeCause.FORCED)
    stage.change(Profile(uuid_bytes(ME), "me", Address("10.0.0.1", 8301)), ALIVE, ChangeCause.JOINED)
    assert stage.names() == []


# Self-preservation.


def test_while_silence_means_nothing_a_silent_verdict_hides_nothing() -> None:
    stage = Stage()
    stage.change(member("web"), ALIVE, ChangeCause.JOINED)
    stage.presence.hold(NOW, holds=True, since_ns=0)
    stage.change(member("web"), DEAD, ChangeCause.SILENT)
    assert stage.health("web") is CheckStatus.PASSING
    stage.presence.hold(NOW, holds=False, since_ns=0)
    assert stage.health("web") is CheckStatus.CRITICAL


def test_those_that_fell_silent_just_before_are_shown_again_and_older_ones_are_not() -> None:
    stage = Stage()
    before = Now(NOW.monotonic_ns - 100 * SECOND, NOW.wall_ms - 100_000)
    stage.change(member("old", 2), DEAD, ChangeCause.SILENT, at=before)
    stage.change(member("web", 3), DEAD, ChangeCause.SILENT)
    stage.presence.hold(NOW, holds=True, since_ns=NOW.monotonic_ns - SECOND)
    assert stage.health("old") is CheckStatus.CRITICAL
    assert stage.health("web") is CheckStatus.PASSING


def test_a_refusal_and_a_departure_hide_all_the_same() -> None:
    stage = Stage()
    stage.presence.hold(NOW, holds=True, since_ns=0)
    stage.change(member("web", 2), DEAD, ChangeCause.REFUSED)
    stage.change(member("shop", 3), ALIVE, ChangeCause.JOINED)
    stage.change(member("shop", 3), LEFT, ChangeCause.LEFT)
    assert stage.health("web") is CheckStatus.CRITICAL
    assert stage.names() == ["web"]


def test_one_of_the_saved_copy_is_shown_as_it_last_was() -> None:
    stage = Stage()
    stage.presence.show_saved(NOW, member("web", 2), is_shown=True)
    stage.presence.show_saved(NOW, member("shop", 3), is_shown=False)
    assert (stage.health("web"), stage.health("shop")) == (CheckStatus.PASSING, CheckStatus.CRITICAL)
    assert (stage.presence.shows("web"), stage.presence.shows("shop")) == (True, False)


def test_one_that_was_hidden_in_the_last_life_is_not_taken_back_before_it_lives() -> None:
    stage = Stage()
    stage.presence.show_saved(NOW, member("web"), is_shown=False)
    stage.change(member("web"), DEAD, ChangeCause.SILENT)
    stage.presence.hold(NOW, holds=True, since_ns=0)
    assert stage.health("web") is CheckStatus.CRITICAL
    stage.change(member("web"), ALIVE, ChangeCause.RESTARTED)
    stage.change(member("web"), DEAD, ChangeCause.SILENT)
    assert stage.health("web") is CheckStatus.PASSING


def test_what_silence_does_not_hide_counts_as_shown() -> None:
    stage = Stage()
    stage.change(member("web"), ALIVE, ChangeCause.JOINED)
    stage.presence.hold(NOW, holds=True, since_ns=0)
    stage.change(member("web"), DEAD, ChangeCause.SILENT)
    assert stage.presence.shows("web")
    stage.presence.hold(NOW, holds=False, since_ns=0)
    assert not stage.presence.shows("web")


def test_ids_are_written_as_consul_writes_them() -> None:
    assert uuid_bytes(uuid_text(bytes(range(16)))) == bytes(range(16))
    assert uuid_text(bytes(range(16))) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
