from __future__ import annotations

import pytest

from adsum.cli.command import (
    Command,
    CommandFlag,
    FlagGroup,
    HelpWanted,
    ParsedCommand,
    UsageError,
    did_you_mean,
    parse,
)

COMMAND = Command(
    lambda _call: 0,
    arguments="NAME [FILE…]",
    flags=(CommandFlag("wan", "Far."), CommandFlag("o", "Form.", "FORM", choices=("table", "json"))),
    groups=(
        FlagGroup(
            "Others",
            (CommandFlag("status", "How.", "REGEX"), CommandFlag("tag", "…", "TAG", is_repeatable=True)),
        ),
    ),
)


def refusal(*words: str, command: Command = COMMAND) -> str:
    with pytest.raises(UsageError) as caught:
        parse(command, words)
    return str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        ["-status", "x", "n"],
        ["--status", "x", "n"],
        ["-status=x", "n"],
        ["--status=x", "n"],
        ["n", "-status", "x"],
        ["-status=y", "-status=x", "n"],
    ],
)
def test_a_flag_may_be_written_in_every_way_that_go_takes_and_after_arguments(words: list[str]) -> None:
    call = parse(COMMAND, words)
    assert (call.text("status"), call.words) == ("x", ["n"])


def test_repeated_flags_keep_their_order_and_values_may_hold_equal_signs() -> None:
    assert parse(COMMAND, ["-tag=b=1", "-tag", "a", "n"]).texts("tag") == ["b=1", "a"]


@pytest.mark.parametrize(
    ("word", "is_on"), [("-wan", True), ("-wan=1", True), ("-wan=false", False), ("--wan=F", False)]
)
def test_a_switch_stands_alone_or_carries_a_go_boolean(word: str, *, is_on: bool) -> None:
    assert parse(COMMAND, [word, "n"]).is_on("wan") is is_on


def test_a_value_may_begin_with_a_dash_and_a_dash_alone_is_an_argument() -> None:
    call = parse(COMMAND, ["n", "-status", "-1", "-"])
    assert (call.text("status"), call.words) == ("-1", ["n", "-"])


def test_after_two_dashes_nothing_is_a_flag() -> None:
    assert parse(COMMAND, ["--", "-wan"]) == ParsedCommand(["-wan"], {})


def test_a_slip_is_answered_with_the_nearest_flag() -> None:
    assert refusal("n", "-sattus=x") == "there is no flag -sattus; did you mean -status?"
    assert refusal("n", "--statsu") == "there is no flag -statsu; did you mean -status?"


def test_what_looks_like_no_flag_gets_no_suggestion() -> None:
    assert refusal("n", "-zzzzzz") == "there is no flag -zzzzzz"


def test_a_short_flag_is_not_found_inside_a_longer_slip() -> None:
    assert refusal("n", "-oops=1").startswith("there is no flag -oops")


def test_bad_values_say_what_would_do() -> None:
    assert refusal("n", "-wan=maybe") == 'the flag -wan is true or false, not "maybe"'
    assert refusal("n", "-o=yaml") == 'the flag -o takes table, json, not "yaml"'
    assert refusal("n", "-status") == "the flag -status needs a value: -status=REGEX"


def test_choices_are_taken_in_any_case() -> None:
    assert parse(COMMAND, ["n", "-o=JSON"]).text("o") == "json"


def test_a_far_word_is_not_suggested() -> None:
    assert did_you_mean("event", ["leave", "members"]) == ""


def test_arguments_are_counted() -> None:
    assert refusal() == "NAME is missing"
    assert parse(COMMAND, ["n", "a", "b", "c"]).words == ["n", "a", "b", "c"]
    one = COMMAND._replace(arguments="[NAME]")
    assert parse(one, []).words == []
    assert refusal("a", "b", command=one) == 'there is nothing to do with "b"'


@pytest.mark.parametrize("word", ["-h", "-help", "--help"])
def test_help_may_be_asked_for_anywhere(word: str) -> None:
    with pytest.raises(HelpWanted):
        parse(COMMAND, ["n", word])


def test_where_values_may_look_like_flags_the_first_argument_ends_the_flags() -> None:
    command = COMMAND._replace(flags_come_first=True)
    call = parse(command, ["-wan", "n", "-5", "-o=json"])
    assert (call.words, call.is_on("wan"), call.text("o")) == (["n", "-5", "-o=json"], True, "")
