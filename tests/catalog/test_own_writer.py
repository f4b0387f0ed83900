"""What an agent publishes of itself: handed on once, by the bytes that everybody holds."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check
from adsum.catalog.own_services import DefinedBy, LocalSettings, OwnCheck, OwnService, OwnServices
from adsum.catalog.own_writer import OwnCatalogWriter, OwnChange
from adsum.catalog.view import View
from adsum.now import SECOND, Now
from adsum.testing.samples import NODE, TTL_CHECK, WEB

NOW = Now(SECOND, 1_700_000_000_000)
CHECK = Check(check_id="web", name="web check", status=CheckStatus.CRITICAL)
DEFINITION = b"as others hold it"


class Others:
    """What was handed on to them."""

    def __init__(self) -> None:
        self.heard: list[OwnChange] = []

    def publish(self, _now: Now, change: OwnChange) -> None:
        self.heard.append(change)


def writer(others: Others) -> OwnCatalogWriter:
    writer = OwnCatalogWriter(View(NOW, tag=1), NODE.node_id, NODE.name)
    writer.put_node(NOW, NODE)
    writer.hand_on_to(NOW, others.publish)
    others.heard.clear()
    return writer


def own_web(published: OwnCatalogWriter, others: Others) -> OwnServices:
    """A service with one check, of which everything has been handed on."""
    own = OwnServices(published, LocalSettings(NODE.name, 0, discard_check_output=False), Random(1))
    own.put_service(NOW, OwnService(WEB, DefinedBy.API))
    own.put_check(NOW, OwnCheck(TTL_CHECK, DefinedBy.API, WEB))
    others.heard.clear()
    return own


def test_the_node_is_handed_on_as_its_record() -> None:
    published, others = OwnCatalogWriter(View(NOW, tag=1), NODE.node_id, NODE.name), Others()
    published.hand_on_to(NOW, others.publish)
    published.put_node(NOW, NODE)
    assert others.heard == [OwnChange("node", b"\x84\x00cdc1\xa0\xa0")]


def test_a_check_is_handed_on_with_its_definition_and_what_it_says() -> None:
    others = Others()
    writer(others).put_check(NOW, CHECK, DEFINITION)
    assert others.heard == [OwnChange("check:web", DEFINITION, "state:web", CHECK)]


def test_what_is_as_it_was_is_not_handed_on() -> None:
    others = Others()
    published = writer(others)
    published.put_check(NOW, CHECK, DEFINITION)
    published.put_check(NOW, replace(CHECK), DEFINITION)
    published.remove_check(NOW, "unknown")
    published.remove_service(NOW, "unknown")
    assert [change.key for change in others.heard] == ["check:web"]


def test_before_there_are_others_the_last_word_on_each_waits_in_the_place_of_the_first() -> None:
    published, others = OwnCatalogWriter(View(NOW, tag=1), NODE.node_id, NODE.name), Others()
    published.put_node(NOW, NODE)
    published.put_check(NOW, CHECK, DEFINITION)
    published.put_check(NOW, replace(CHECK, check_id="db"), DEFINITION)
    published.remove_check(NOW, "web")
    published.hand_on_to(NOW, others.publish)
    keys = [(change.key, change.encoded) for change in others.heard[1:]]
    assert keys == [("check:web", None), ("check:db", DEFINITION)]


def test_a_flip_hands_on_the_very_bytes_that_were_made_at_the_registration() -> None:
    others = Others()
    own = own_web(writer(others), others)
    encoded = own.checks["service:web1"].encoded
    own.report_ttl(NOW, "service:web1", CheckStatus.PASSING, "fine")
    (change,) = others.heard
    assert change.encoded is encoded
    assert encoded == b"\x88\x02lservice:web1sService 'web' check`dweb1cweb\x80cttl"


def test_new_tags_of_a_service_are_in_the_definitions_of_its_checks() -> None:
    others = Others()
    own = own_web(writer(others), others)
    own.put_service(NOW, OwnService(replace(WEB, tags=("blue",)), DefinedBy.API))
    service, check = others.heard
    assert (service.key, check.key) == ("service:web1", "check:service:web1")
    assert check.encoded == b"\x88\x02lservice:web1sService 'web' check`dweb1cweb\x81dbluecttl"
