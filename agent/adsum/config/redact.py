"""Secrets are hidden wherever the configuration is shown."""

from __future__ import annotations

from collections.abc import Mapping

from adsum.userinfo import without_password, without_passwords

HIDDEN = "hidden"
SECRETS = frozenset({"body", "encrypt", "license", "private_key", "privatekey", "password"})
TARGETS = frozenset({"http", "tcp", "udp", "grpc", "h2ping"})  # of checks


def redacted(key: str, value: object) -> object:
    """Tokens and keys are hidden at any depth, except when empty: that they were not set is no secret. Of a
    URL only the password is."""
    key = key.lower()
    name = key.rpartition(".")[2]
    # What a check sends belongs here too: an Authorization header, a body with a password.
    is_of_request = ".tokens." in key or ".header." in f"{key}."
    if value and (name in SECRETS or name.endswith("token") or is_of_request):
        return HIDDEN
    if isinstance(value, Mapping):
        return {str(name): redacted(f"{key}.{name}", inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(key, inner) for inner in value]
    if isinstance(value, str):
        return without_password(value) if name in TARGETS else without_passwords(value)
    return value
