"""How keys compare, in bodies and in files: without case, and with or without underscores."""

from __future__ import annotations


def canonical_key(key: str) -> str:
    return key.replace("_", "").lower()
