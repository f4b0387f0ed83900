"""Passwords inside URLs and addresses: `user:password@host` becomes `user:***@host` wherever a text is shown.

What is shown reaches the log, and as a check's output every host of the cluster. The text that is used stays
as it is. An `@` may stand in any path, so where an authority is recognised only that is looked at; elsewhere
it is better to hide too much.
"""

from __future__ import annotations

import re

MASK = r"\1:***@"
AT_START = re.compile(r"\A((?:[A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#:]*):[^/?#]*@")
WITH_AUTHORITY = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#]")
ANYWHERE = re.compile(r"(//[^\s/?#:]*):[^\s/?#]*@")
# Of what cannot be told apart into user, password and host: all between the first colon and the last `@`.
UNCLEAR = re.compile(r"((?:(?:[A-Za-z][A-Za-z0-9+.-]*:)?//)?+[^:]*):.*@", re.DOTALL)


def without_password(target: str) -> str:
    """For a URL or an address as somebody wrote it."""
    if WITH_AUTHORITY.match(target):
        return AT_START.sub(MASK, target, count=1)
    return without_password_of_unclear(target)


def without_password_of_unclear(target: str) -> str:
    """For what was to be a URL and is none."""
    match = UNCLEAR.match(target)
    return f"{match[1]}:***@{target[match.end() :]}" if match else target


def without_passwords(text: str) -> str:
    """For any text that may hold URLs, such as the words of a command."""
    return ANYWHERE.sub(MASK, text)
