"""Secrets are hidden wherever the configuration is shown."""

from __future__ import annotations

from collections.abc import Mapping

HIDDEN = "hidden"
SECRETS = frozenset({"encrypt", "license", "private_key", "privatekey", "password"})


def redacted(key: str, value: object) -> object:
    """Tokens and keys are hidden at any depth, except when empty: that they were not set is no secret."""
    if _is_secret(key.lower()) and value:
        return HIDDEN
    if isinstance(value, Mapping):
        return {str(name): redacted(f"{key}.{name}", inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(key, inner) for inner in value]
    return value


def _is_secret(key: str) -> bool:
    """`header` belongs here too: a check's Authorization header travels in it."""
    name = key.rpartition(".")[2]
    return name in SECRETS or name.endswith("token") or ".tokens." in key or ".header." in f"{key}."
