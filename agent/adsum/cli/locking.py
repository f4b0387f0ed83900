"""Locks and semaphores as Consul's own clients make them, so that both can compete for one.

A lock is a key that a session acquires, with a flag by which it is known. A semaphore is a list of holders
under such a key, changed by compare-and-set, beside one key for each contender, whose session shows that it
is alive. Whoever holds one watches its key, and is told when it is lost.
"""

from __future__ import annotations

import http
import json
import posixpath
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from adsum.cli.command import CommandFailed
from adsum.cli.connection import AgentRefused, AgentUnreachable, Api

LOCK = ".lock"
LOCK_FLAGS, SEMAPHORE_FLAGS = 3304740253564472344, 16210313421097356768
TTL, TTL_S = "15s", 15.0
WAIT_S = 15.0  # of one blocked read
RETRY_S = 5.0  # where a lock-delay runs and nobody says how long
MONITOR_RETRY_S = 1.0
LIMIT_CONFLICT = "semaphore limit conflict (lock: {}, local: {})"


class Patience:
    """How long a lock is waited for: some time, or without end, and for as long as nothing speaks against it;
    what does raises `CommandFailed`."""

    def __init__(self, for_s: float | None, checks: Sequence[Callable[[], None]]) -> None:
        self._until_s = None if for_s is None else time.monotonic() + for_s
        self._checks = checks

    def check(self) -> None:
        for check in self._checks:
            check()

    def is_over(self) -> bool:
        self.check()
        return self.at_most(WAIT_S) <= 0

    def at_most(self, wait_s: float) -> float:
        """Of a wait, what there is patience for."""
        return wait_s if self._until_s is None else min(wait_s, max(self._until_s - time.monotonic(), 0))


class Held(Protocol):
    token: str  # fencing token, where the agent gives one

    def acquire(self, api: Api, patience: Patience) -> bool: ...

    def is_held(self, api: Api) -> bool:
        """As of now; waits a while for a change first."""

    def release(self, api: Api) -> None: ...

    def clean_up(self, api: Api) -> bool:
        """Whether what it is made of is gone, which is so when nobody else holds it."""


class LockSession:
    """Kept alive by `renew` at least twice within its TTL."""

    def __init__(self, api: Api, name: str, datacenter: str, *, deletes_keys: bool) -> None:
        self.query = [("dc", datacenter)]
        asked = {"Name": name, "TTL": TTL, **({"Behavior": "delete"} if deletes_keys else {})}
        self.id: str = json.loads(api.put("/v1/session/create", self.query, asked))["ID"]

    def renew(self, api: Api) -> bool:
        """False: it is gone."""
        try:
            api.put(f"/v1/session/renew/{self.id}", self.query)
        except AgentRefused as refused:
            if refused.code == http.HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    def destroy(self, api: Api) -> None:
        api.put(f"/v1/session/destroy/{self.id}", self.query)


class KeyLock:
    def __init__(self, key: str, session: LockSession) -> None:
        self.token = ""
        self._key = key
        self._session = session
        self._index = 0

    def acquire(self, api: Api, patience: Patience) -> bool:
        wait: list[tuple[str, str]] = []
        while True:
            entry = self._entry(api, wait)
            if entry is not None and entry.get("Flags") != LOCK_FLAGS:
                raise CommandFailed("Lock acquisition failed: Existing key does not match lock use")
            is_taken = entry is not None and bool(entry.get("Session"))
            if not is_taken:
                query = [*self._session.query, ("acquire", self._session.id), ("flags", str(LOCK_FLAGS))]
                if b"true" in api.send("PUT", f"/v1/kv/{self._key}", query):
                    self.token = api.header("X-Adsum-Fencing-Token")
                    return True
                delay = api.header("X-Adsum-Lock-Delay-Remaining")
                if not delay and not api.header("X-Adsum-Holder"):  # Consul's agent does not say why
                    entry = self._entry(api, [])
                    is_taken = entry is not None and bool(entry.get("Session"))
                if not is_taken and not api.header("X-Adsum-Holder"):
                    time.sleep(patience.at_most(_seconds(delay)))
            if patience.is_over():
                return False
            wait = _waiting(self._index, patience.at_most(WAIT_S)) if is_taken else []

    def is_held(self, api: Api) -> bool:
        entry = self._entry(api, [("consistent", "1"), *_waiting(self._index, WAIT_S)])
        return entry is not None and entry.get("Session") == self._session.id

    def release(self, api: Api) -> None:
        query = [*self._session.query, ("flags", str(LOCK_FLAGS)), ("release", self._session.id)]
        api.send("PUT", f"/v1/kv/{self._key}", query)

    def clean_up(self, api: Api) -> bool:
        entry = self._entry(api, [])
        if entry is None:
            return True
        if entry.get("Session") or entry.get("Flags") != LOCK_FLAGS:
            return False
        query = [*self._session.query, ("cas", str(entry["ModifyIndex"]))]
        return b"true" in api.send("DELETE", f"/v1/kv/{self._key}", query)

    def _entry(self, api: Api, query: list[tuple[str, str]]) -> dict[str, Any] | None:
        found = _entries(api, self._key, [*self._session.query, *query])
        self._index = int(api.header("X-Consul-Index") or 0)
        return found[0] if found else None


class KeySemaphore:
    """Its session deletes the contender's key with its end."""

    def __init__(self, prefix: str, session: LockSession, limit: int) -> None:
        self.token = ""
        self._prefix = prefix
        self._session = session
        self._limit = limit
        self._index = 0

    def acquire(self, api: Api, patience: Patience) -> bool:
        session = self._session
        contender = [*session.query, ("acquire", session.id), ("flags", str(SEMAPHORE_FLAGS))]
        if b"true" not in api.send("PUT", self._path(session.id), contender):
            raise CommandFailed("Lock acquisition failed: failed to make contender entry")
        wait: list[tuple[str, str]] = []
        while True:
            entries = self._entries(api, wait)
            if not any(each.get("Session") == session.id for each in entries):
                raise CommandFailed("Lock acquisition failed: the session ended while it waited")
            holders, modified = self._holders(entries)
            if len(holders) < self._limit and self._write(api, [*holders, session.id], modified):
                return True
            if patience.is_over():
                return False
            is_full = len(holders) >= self._limit
            wait = _waiting(self._index, patience.at_most(WAIT_S)) if is_full else []

    def is_held(self, api: Api) -> bool:
        entries = self._entries(api, [("consistent", "1"), *_waiting(self._index, WAIT_S)])
        return self._session.id in self._holders(entries)[0]

    def release(self, api: Api) -> None:
        while True:
            holders, modified = self._holders(self._entries(api, []))
            others = [each for each in holders if each != self._session.id]
            if others == holders or self._write(api, others, modified):
                return

    def clean_up(self, api: Api) -> bool:
        holders, modified = self._holders(self._entries(api, []))
        if holders:
            return False
        query = [*self._session.query, ("cas", str(modified))]
        return b"true" in api.send("DELETE", self._path(LOCK), query)

    def _path(self, name: str) -> str:
        return f"/v1/kv/{below(self._prefix, name)}"

    def _entries(self, api: Api, query: list[tuple[str, str]]) -> list[dict[str, Any]]:
        found = _entries(api, below(self._prefix, ""), [*self._session.query, ("recurse", "1"), *query])
        self._index = int(api.header("X-Consul-Index") or 0)
        return found

    def _holders(self, entries: list[dict[str, Any]]) -> tuple[list[str], int]:
        """Those that live, and the index with which the list may be changed."""
        path = below(self._prefix, LOCK)
        lock = next((each for each in entries if each["Key"] == path), None)
        if lock is None:
            return [], 0
        if lock["Flags"] != SEMAPHORE_FLAGS:
            raise CommandFailed("Lock acquisition failed: Existing key does not match semaphore use")
        modified = int(lock["ModifyIndex"])
        if not lock["Value"]:
            return [], modified
        try:
            said = json.loads(b64decode(lock["Value"]))
            limit, named = said["Limit"], list(said["Holders"] or {})
        except (ValueError, KeyError, TypeError):
            raise CommandFailed(f"Lock acquisition failed: what {path} holds is no semaphore") from None
        if limit != self._limit:
            raise CommandFailed(f"Lock acquisition failed: {LIMIT_CONFLICT.format(limit, self._limit)}")
        alive = {each.get("Session") for each in entries}
        return [each for each in named if each in alive], modified

    def _write(self, api: Api, holders: list[str], modified: int) -> bool:
        value = json.dumps({"Limit": self._limit, "Holders": dict.fromkeys(holders, True)})
        query = [*self._session.query, ("cas", str(modified)), ("flags", str(SEMAPHORE_FLAGS))]
        return b"true" in api.send("PUT", self._path(LOCK), query, value.encode())


def until_lost(held: Held, api: Api, retries: int, is_over: Callable[[], bool]) -> None:
    """Returns when it is lost, or cannot be looked at any more."""
    left = retries
    while not is_over():
        try:
            if not held.is_held(api):
                return
            left = retries
        except (AgentRefused, AgentUnreachable):
            if left <= 0:
                return
            left -= 1
            time.sleep(MONITOR_RETRY_S)


def cleaned(prefix: str) -> str:
    """As Consul's own makes a key of it, so that `a/` and `a` are one lock."""
    if not prefix:
        return ""
    clean = posixpath.normpath(prefix)
    return "" if clean == "." else clean.replace("//", "/")


def below(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix not in ("", "/") else f"{prefix}{name}"


def _entries(api: Api, key: str, query: list[tuple[str, str]]) -> list[dict[str, Any]]:
    try:
        return api.get_list(f"/v1/kv/{key}", query)
    except AgentRefused as refused:
        if refused.code == http.HTTPStatus.NOT_FOUND:
            return []
        raise


def _waiting(index: int, wait_s: float) -> list[tuple[str, str]]:
    return [("index", str(index or "")), ("wait", f"{max(int(wait_s * 1_000), 1)}ms")]


def _seconds(told: str) -> float:
    """Of a lock-delay; a while where nobody tells."""
    from adsum.durations import BadDuration, parse_duration

    try:
        return min(parse_duration(told) / 1e9, RETRY_S) if told else RETRY_S
    except BadDuration:
        return RETRY_S
