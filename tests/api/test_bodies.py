"""JSON bodies: the words for what is wrong were recorded from Consul 1.8.7."""

from __future__ import annotations

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.api.bodies import decode_json
from adsum.http.router import HttpRefusal


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "EOF"),
        (b" \n", "EOF"),
        (b"{", "unexpected EOF"),
        (b'{"a"', "unexpected EOF"),
        (b'{"Name": "x" ,', "unexpected EOF"),
        (b"[1", "unexpected EOF"),
        (b"zz", "invalid character 'z' looking for beginning of value"),
        (b"]", "invalid character ']' looking for beginning of value"),
        (b'{"a":.5}', "invalid character '.' looking for beginning of value"),
        (b'{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        (b'{"Name":tru}', "invalid character '}' in literal true (expecting 'e')"),
        (b'{"a":tRue}', "invalid character 'R' in literal true (expecting 'r')"),
        (b'{"Name":"a",}', "invalid character '}' looking for beginning of object key string"),
        (b"{'Name':1}", r"invalid character '\'' looking for beginning of object key string"),
        (b'{"Name":"a" "b"}', "invalid character '\"' after object key:value pair"),
        (b'{"a":01}', "invalid character '1' after object key:value pair"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"[1}", "invalid character '}' after array element"),
        (b'{"a":[1,]}', "invalid character ']' looking for beginning of value"),
        (b'{"Name":"a\nb"}', r"invalid character '\n' in string literal"),
        (b'{"a":"\x01"}', r"invalid character '\x01' in string literal"),
        (b'{"Name":"\\q"}', "invalid character 'q' in string escape code"),
        (b'{"a":-x}', "invalid character 'x' in numeric literal"),
    ],
)
def test_what_is_wrong_is_said_as_go_says_it(body: bytes, words: str) -> None:
    with pytest.raises(HttpRefusal) as refusal:
        decode_json(body)
    assert (refusal.value.status, refusal.value.sentence) == (400, f"Request decode failed: {words}")


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"Name":"a"}{"x"', {"Name": "a"}),
        (b" [1, 2] trailing", [1, 2]),
        (b'"\xff"', "\ufffd"),
        (rb'"\ud800"', "\ufffd"),
        (rb'"\\ud800 \ud83d\ude00 \udc00"', "\\ud800 \U0001f600 \ufffd"),
        (b'{"Flags":18446744073709551615}', {"Flags": 2**64 - 1}),
        (b"null", None),
    ],
)
def test_what_go_lets_pass_passes(body: bytes, value: object) -> None:
    assert decode_json(body) == value


def test_deep_nesting_is_refused_and_not_followed() -> None:
    for body in (b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000):
        with pytest.raises(HttpRefusal):
            decode_json(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON, st.booleans())
def test_what_json_writes_is_read(value: object, is_ascii: bool) -> None:
    assert decode_json(json.dumps(value, ensure_ascii=is_ascii).encode()) == value


@given(st.binary(max_size=40) | JSON.map(lambda value: msgspec.json.encode(str(value))[:-1]))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with suppress(HttpRefusal):
        decode_json(body)
