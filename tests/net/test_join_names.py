from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from adsum.address import Address
from adsum.net.join_names import ADDRESSES_MAX, BadEntry, JoinEntry, find, parse, system_lookup


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1", ("10.0.0.1", 8301, False)),
        ("10.0.0.1:9301", ("10.0.0.1", 9301, False)),
        ("fd00::1", ("fd00::1", 8301, False)),
        ("[fd00::1]", ("fd00::1", 8301, False)),
        ("[fd00::1]:9301", ("fd00::1", 9301, False)),
        ("servers.example", ("servers.example", 8301, True)),
        (" servers.example.:9301 ", ("servers.example.", 9301, True)),
        ("host_1", ("host_1", 8301, True)),
    ],
)
def test_entries_are_read(text: str, expected: tuple[str, int, bool]) -> None:
    assert parse(text, 8301) == JoinEntry(text, *expected)


@pytest.mark.parametrize(
    "text",
    ["", ":8301", "host:", "host:0", "host:99999", "a b", "[fd00::1", "10.0.0", "1:2:3:x", "-x-", "a" * 300],
)
def test_what_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(BadEntry):
        parse(text, 8301)


def test_cloud_providers_are_refused_with_what_to_do_instead() -> None:
    with pytest.raises(BadEntry, match="list addresses or a DNS name"):
        parse("provider=aws tag_key=x", 8301)


async def lookup(name: str) -> Sequence[str]:
    known = {"two": ["10.0.0.1", "10.0.0.2"], "six": ["fd00::1"], "none": []}
    if name == "slow":
        await trio.sleep_forever()
    if name not in known:
        raise OSError(-2, "Name or service not known")
    return known[name]


def test_a_name_stands_for_all_its_addresses_and_a_bad_one_stops_nobody() -> None:
    entries = [parse(text, 8301) for text in ("10.0.0.2", "gone", "two", "six:1", "none", "slow", "two:9")]
    found = trio.run(find, entries, lookup, clock=MockClock(autojump_threshold=0))
    assert found.addresses == [
        Address("10.0.0.2", 8301),
        Address("10.0.0.1", 8301),
        Address("fd00::1", 1),
        Address("10.0.0.1", 9),
        Address("10.0.0.2", 9),
    ]
    assert found.failures == {
        "gone": "'gone' does not resolve: Name or service not known",
        "none": "'none' has no addresses",
        "slow": "'slow' was not resolved within 10 s",
    }


async def test_a_name_with_too_many_addresses_is_cut_off() -> None:
    async def many(_: str) -> Sequence[str]:
        return [f"10.{number >> 8}.{number & 255}.1" for number in range(2 * ADDRESSES_MAX)]

    assert len((await find([parse("many", 1)], many)).addresses) == ADDRESSES_MAX


async def test_the_host_resolves_its_own_name() -> None:
    assert "127.0.0.1" in await system_lookup("localhost")
