"""What is said where so many voters are silent that nobody can lead."""

from __future__ import annotations

from adsum.raft.types import Configuration, MemberId
from adsum.servers.missing import without_majority

A, B, C, D, E = (MemberId(name, f"log-{name}") for name in "abcde")
THREE = Configuration(voters=(A, B, C))
WALL_MS = 1_800_000_000_000  # 2027-01-15T08:00:00Z
HOUR_MS = 3_600_000


def said(configuration: Configuration, silences_ms: dict[str, int], *, running_ms: int = HOUR_MS) -> str:
    return without_majority(
        configuration,
        A,
        silences_ms,
        running_ms=running_ms,
        silent_ms=5_000,
        wall_ms=WALL_MS,
        name_of=str.upper,
    )


def test_who_is_missing_since_when_and_what_to_do_is_said() -> None:
    assert said(THREE, {"b": 90_000}) == (
        "2 of 3 voters are missing: B (since 2027-01-15T07:58:30Z), C (not heard since this server started); "
        "start them again; where they are gone for good, a quorum recovery makes one that is left the only "
        "voter"
    )


def test_nothing_is_said_while_enough_are_heard_or_may_be_yet() -> None:
    assert said(THREE, {"b": 4_999, "c": 90_000}) == ""
    assert said(THREE, {}, running_ms=4_999) == ""
    assert said(Configuration(voters=(A,)), {}) == ""


def test_of_two_majorities_that_have_to_agree_the_one_that_is_missing_is_named() -> None:
    joint = Configuration(voters=(A, B, C), voters_outgoing=(A, D, E))
    assert said(joint, {"b": 0, "c": 0, "d": 90_000, "e": 60_000}).startswith(
        "2 of 3 voters are missing: D (since 2027-01-15T07:58:30Z), E (since 2027-01-15T07:59:00Z);"
    )
