"""An answer is whole when all of it is there, by its length or by its last chunk."""

from __future__ import annotations

import pytest

from tests.bench.blocking_queries import is_whole

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Consul-Index: 7\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        (LENGTH, b"[1,2", False),
        (LENGTH, b"[1,2]", True),
        (LENGTH.lower(), b"[1,2]", True),
        (CHUNKED, b"", False),
        (CHUNKED, b"5\r\n[1,2]\r\n", False),
        (CHUNKED, b"5\r\n[1,2]\r\n0\r\n", False),
        (CHUNKED, b"5\r\n[1,2]\r\n0\r\n\r\n", True),
        (CHUNKED, b"3\r\n\n0\n\r\n", False),
        (CHUNKED, b"0\r\n\r\n", True),
    ],
)
def test_an_answer_is_whole_when_its_end_is_there(head: bytes, body: bytes, expected: bool) -> None:
    assert is_whole(head, body) is expected
