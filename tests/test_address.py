from __future__ import annotations

import pytest

from adsum.address import is_ip_host


@pytest.mark.parametrize(
    "host",
    [
        *("10.0.0.1", "127.0.0.1", "::1", "fd00::1", "::ffff:10.0.0.1"),
        *("fe80::1%eth0", "fe80::1%7", "fe80::1%br-0.1_a"),
    ],
)
def test_plain_ip_literals_are_hosts(host: str) -> None:
    assert is_ip_host(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", "example.com", "10.0.0", "10.0.0.01", "1"),
        *("127.0.0.1\0", " 127.0.0.1", "127.0.0.1\n", "١٢٧.0.0.1"),
        *("fe80::1%", "fe80::1%a\0b", "fe80::1%a b", "fe80::1%a/b", "fe80::1%%"),
        *("fe80::1%" + 16 * "e", "fe80::1%é"),
        *("0.0.0.0", "::", "224.0.0.1", "ff02::1", "0" * 65, "[::1]", "::1/128"),
    ],
)
def test_anything_else_is_none(host: str) -> None:
    assert not is_ip_host(host)
