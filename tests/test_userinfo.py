from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.userinfo import without_password, without_password_of_unclear, without_passwords


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("http://user:hunter2@h:80/p?q#f", "http://user:***@h:80/p?q#f"),
        ("//user:hunter2@h/", "//user:***@h/"),
        ("http://user:hun:t@er2@[::1]:80/", "http://user:***@[::1]:80/"),
        ("http://:hunter2@h", "http://:***@h"),
        ("user:hunter2@h:80", "user:***@h:80"),
        ("http:user:hunter2@h", "http:***@h"),
        ("http:///user:hunter2@h/", "http:///user:***@h/"),
        ("http://user@h:80/p", "http://user@h:80/p"),
        ("http://h:80/@me?mail=a@b", "http://h:80/@me?mail=a@b"),
        ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        ("http://h:80/a//b:c@d", "http://h:80/a//b:c@d"),
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("", ""),
    ],
)
def test_only_the_password_is_masked(written: str, shown: str) -> None:
    assert without_password(written) == shown


def test_of_what_is_no_url_all_is_masked_that_may_be_a_password() -> None:
    assert without_password_of_unclear("http://user:hun/ter#2@h:80/p") == "http://user:***@h:80/p"
    assert without_password_of_unclear("http://h:80/c%zz") == "http://h:80/c%zz"
    assert without_password_of_unclear("http://h/c%zz@d") == "http://h/c%zz@d"


def test_each_password_in_a_longer_text_is_masked() -> None:
    command = "curl http://a:one@h/ https://b:two@h:81/x@y"
    assert without_passwords(command) == "curl http://a:***@h/ https://b:***@h:81/x@y"


@given(st.text(st.characters(exclude_characters="/?#"), min_size=1))
def test_no_password_is_shown_whatever_it_consists_of(password: str) -> None:
    assert without_password(f"http://user:{password}@h/") == "http://user:***@h/"
