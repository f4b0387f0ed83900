from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.config.errors import UnreadableFile
from adsum.config.hcl import read


def test_values_of_every_kind() -> None:
    text = r"""
        text = "a\"b\\c\n\u00e9\x41\101${y "quoted"}"  # a comment
        on = true  // another
        off = false /* and
                       another */
        whole = -5
        part = 1.5e3
        hex = 0xff
        "quoted key" = [1, "a", [true], { k = "v" },]
        motto = <<EOF
two
 lines
EOF
        indented = <<-END
            one
            END
    """
    assert read(text.replace('"quoted"}', "quoted}")) == {
        "text": 'a"b\\c\néAA${y quoted}',
        "on": True,
        "off": False,
        "whole": -5,
        "part": 1500.0,
        "hex": 255,
        "quoted key": [1, "a", [True], {"k": "v"}],
        "motto": "two\n lines\n",
        "indented": "            one\n",
    }


def test_blocks_of_one_name_gather_and_their_items_need_no_commas() -> None:
    text = """
        service { name = "a" port = 80
          check { ttl = "5s" }
          check { ttl = "6s" }
          check { ttl = "7s" }
        }
        service { name = "b", port = 81, }
        dns_config { service_ttl { "*" = "5s" } }
        service "web" { port = 1 }
    """
    assert read(text) == {
        "service": [
            {"name": "a", "port": 80, "check": [{"ttl": "5s"}, {"ttl": "6s"}, {"ttl": "7s"}]},
            {"name": "b", "port": 81},
            {"web": {"port": 1}},
        ],
        "dns_config": {"service_ttl": {"*": "5s"}},
    }


def test_of_a_value_said_twice_the_last_counts() -> None:
    assert read("a = 1\na = 2\nb = [1]\nb = { c = 3 }") == {"a": 2, "b": {"c": 3}}


def test_signs_within_quotes_are_text() -> None:
    assert read('a = ["]", "}"] "}" = "="') == {"a": ["]", "}"], "}": "="}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('a = "b"\nc = = "d"', "line 2 column 5: '='"),
        ("a = ", "the end of the file"),
        ("a {", "the end of the file"),
        ("a = [1 2]", "column 8: '2'"),
        ("a = [1", "the end of the file"),
        ("a = b", "column 5: 'b'"),
        ("a = 1 + 2", "column 7: '+'"),
        ('a = "b', "column 5"),
        ('a = "\\q"', "column 5"),
        ('a = "\\U00110000"', "column 5"),
        ("a = <<EOF\nb", "column 5"),
        ("}", "column 1: '}'"),
        ("= 1", "column 1: '='"),
        ("a = 1, b = 2", "column 6: ','"),
        (f"a = {'9' * 5000}", "column 5"),
        ("a = 08x", "column 5"),
    ],
)
def test_what_is_not_hcl_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(UnreadableFile) as refusal:
        read(text)
    assert reason in str(refusal.value)


WORDS = ["a", "1", '"b"', "true", "<<EOF\n", "EOF", "${", "1.5"]
FRAGMENTS = st.sampled_from([*'={}[],"\\\n #/*<-', *WORDS])


@given(st.lists(FRAGMENTS | st.text(max_size=3)).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read(text)
    except UnreadableFile as problem:
        reason = str(problem)
        assert "line" in reason
