from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.config.errors import ConfigError
from adsum.config.flags import AGENT_FLAGS, FlagError, parse_agent_flags
from adsum.config.keys import KEYS


def errors_of(*argv: str) -> list[ConfigError]:
    with pytest.raises(FlagError) as refusal:
        parse_agent_flags(argv)
    return refusal.value.errors


@pytest.mark.parametrize(
    "argv",
    [["-http-port=1"], ["--http-port=1"], ["-http-port", "1"], ["--http-port", "1"], ["-http-port=+1"]],
)
def test_one_dash_or_two_and_a_value_beside_or_behind(argv: list[str]) -> None:
    assert parse_agent_flags(argv) == ([], {"ports": {"http": 1}})


def test_a_negative_value_is_no_flag() -> None:
    assert parse_agent_flags(["-http-port", "-1"]) == ([], {"ports": {"http": -1}})


@pytest.mark.parametrize(
    ("word", "value"), [("-dev", True), ("-dev=false", False), ("--dev=T", True), ("-dev=0", False)]
)
def test_a_boolean_stands_alone_or_says_which(word: str, value: bool) -> None:
    assert parse_agent_flags([word]) == ([], {"dev": value})


def test_a_boolean_takes_no_word_behind_it() -> None:
    assert errors_of("-dev", "false") == [
        ConfigError("false", "is no flag: the agent takes nothing but flags")
    ]


def test_repeated_flags_append_and_single_ones_win_last() -> None:
    argv = [
        "-recursor=1.1.1.1",
        "-recursor",
        "8.8.8.8",
        "-node=a",
        "-node=b",
        "-node-meta=k:v:w",
        "-node-meta=e",
    ]
    assert parse_agent_flags(argv)[1] == {
        "recursors": ["1.1.1.1", "8.8.8.8"],
        "node_name": "b",
        "node_meta": [{"k": "v:w"}, {"e": ""}],
    }


def test_files_and_folders_keep_the_order_they_were_given_in() -> None:
    assert parse_agent_flags(["-config-dir=d", "-config-file", "f.json", "-config-dir", "e"])[0] == [
        "d",
        "f.json",
        "e",
    ]


def test_all_slips_are_reported_at_once_with_the_nearest_flag() -> None:
    wrong = ("-htttp-port=1", "-oops=1", "word", "-dns-port=x", "-http-port=-+5", "-dev=maybe", "-node")
    assert errors_of(*wrong) == [
        ConfigError("flag -htttp-port", 'is unknown: did you mean "-http-port"?'),
        ConfigError("flag -oops", "is unknown"),
        ConfigError("word", "is no flag: the agent takes nothing but flags"),
        ConfigError("flag -dns-port", 'must be a whole number, not "x"'),
        ConfigError("flag -http-port", 'must be a whole number, not "-+5"'),
        ConfigError("flag -dev", 'must be true or false, not "maybe"'),
        ConfigError("flag -node", "needs a value"),
    ]


def test_every_flag_sets_a_known_key_and_has_help() -> None:
    own = {"dev", "hcl", "config_format", "config-file", "config-dir"}
    for flag in AGENT_FLAGS:
        assert flag.key in KEYS or flag.key in own
        assert flag.help.endswith(".")
    assert [flag.name for flag in AGENT_FLAGS] == sorted(flag.name for flag in AGENT_FLAGS)


@given(st.lists(st.sampled_from([f"-{flag.name}" for flag in AGENT_FLAGS]) | st.text(max_size=8), max_size=6))
def test_whatever_is_typed_is_understood_or_refused(argv: list[str]) -> None:
    try:
        parse_agent_flags(argv)
    except FlagError as refusal:
        errors = refusal.errors
        assert errors
