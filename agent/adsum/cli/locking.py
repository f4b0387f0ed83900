"""Locks and semaphores as Consul's own clients make them, so that both can compete for one.

A lock is a key that a session acquires, with a flag by which it is known. A semaphore is a list of holders
under such a key, changed by compare-and-set, beside one key for each contender, whose session shows that it
is alive. Whoever holds one watches its key, and is told when it is lost.
"""

from __future__ import annotations

import http
import json
import time
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Protocol

from adsum.cli.command import CommandFailed
from adsum.cli.connection import AgentRefused, AgentUnreachable, Api

LOCK_FLAGS, SEMAPHORE_FLAGS = 3304740253564472344, 16210313421097356768
TTL, TTL_S = "15s", 15.0
WAIT_S = 15.0  # of one blocked read
RETRY_S = 5.0  # where a lock-delay runs and nobody says how long
MONITOR_RETRY_S = 1.0
LIMIT_CONFLICT = "semaphore limit conflict (lock: {}, local: {})"


class Patience:
    """How long a lock is waited for: some time, or without end; and no longer once a signal came."""

    def __init__(self, for_s: float | None, is_told_to_end: Callable[[], bool]) -> None:
        self._until_s = None if for_s is None else time.monotonic() + for_s
        self._is_told_to_end = is_told_to_end

    def is_over(self) -> bool:
        return self._is_told_to_end() or self.at_most(WAIT_S) <= 0

    def at_most(self, wait_s: float) -> float:
        """Of a wait, what there is patience for."""
        return wait_s if self._until_s is None else min(wait_s, max(self._until_s - time.monotonic(), 0))


class Held(Protocol):
    token: str  # fencing token, where the agent gives one

    def acquire(self, patience: Patience) -> bool: ...

    def is_held(self, api: Api) -> bool:
        """As of now; waits a while for a change first, over a connection of its own."""

    def release(self) -> None: ...

    def clean_up(self) -> bool:
        """Whether what it is made of is gone, which is so when nobody else holds it."""


class LockSession:
    """Kept alive by `renew` at least twice within its TTL."""

    def __init__(self, api: Api, name: str, datacenter: str) -> None:
        self.query = [("dc", datacenter)]
        created = api.put("/v1/session/create", self.query, {"Name": name, "TTL": TTL})
        self.id: str = json.loads(created)["ID"]

    def renew(self, api: Api) -> bool:
        """False: it is gone."""
        try:
            api.put(f"/v1/session/renew/{self.id}", self.query)
        except AgentRefused as refused:
            return refused.code != http.HTTPStatus.NOT_FOUND
        return True

    def destroy(self, api: Api) -> None:
        api.put(f"/v1/session/destroy/{self.id}", self.query)


class KeyLock:
    def __init__(self, api: Api, key: str, session: LockSession) -> None:
        self.token = ""
        self._api = api
        self._key = key
        self._session = session
        self._index = 0

    def acquire(self, patience: Patience) -> bool:
        entry: dict[str, Any] | None = None
        while True:
            entry = self._read(patience, entry)
            if entry is not None and entry.get("Flags") != LOCK_FLAGS:
                raise CommandFailed("Lock acquisition failed: Existing key does not match lock use")
            if entry is None or not entry.get("Session"):
                query = [*self._session.query, ("acquire", self._session.id), ("flags", str(LOCK_FLAGS))]
                if b"true" in self._api.send("PUT", f"/v1/kv/{self._key}", query):
                    self.token = self._api.header("X-Adsum-Fencing-Token")
                    return True
                if not self._api.header("X-Adsum-Holder"):
                    time.sleep(patience.at_most(self._delay_s()))
                self._index = 0
            if patience.is_over():
                return False

    def is_held(self, api: Api) -> bool:
        entry = self._entry(api, [("consistent", "1"), *_waiting(self._index, WAIT_S)])
        return entry is not None and entry.get("Session") == self._session.id

    def release(self) -> None:
        query = [*self._session.query, ("flags", str(LOCK_FLAGS)), ("release", self._session.id)]
        self._api.send("PUT", f"/v1/kv/{self._key}", query)

    def clean_up(self) -> bool:
        entry = self._entry(self._api, [])
        if entry is None:
            return True
        if entry.get("Session"):
            return False
        query = [*self._session.query, ("cas", str(entry["ModifyIndex"]))]
        return b"true" in self._api.send("DELETE", f"/v1/kv/{self._key}", query)

    def _read(self, patience: Patience, before: dict[str, Any] | None) -> dict[str, Any] | None:
        """Waits while somebody holds it."""
        is_taken = before is not None and bool(before.get("Session"))
        return self._entry(self._api, _waiting(self._index, patience.at_most(WAIT_S)) if is_taken else [])

    def _entry(self, api: Api, query: list[tuple[str, str]]) -> dict[str, Any] | None:
        found = _entries(api, self._key, [*self._session.query, *query])
        self._index = int(api.header("X-Consul-Index") or 0)
        return found[0] if found else None

    def _delay_s(self) -> float:
        return _seconds(self._api.header("X-Adsum-Lock-Delay-Remaining"))


class KeySemaphore:
    def __init__(self, api: Api, prefix: str, session: LockSession, limit: int) -> None:
        self.token = ""
        self._api = api
        self._prefix = prefix
        self._session = session
        self._limit = limit
        self._index = 0

    def acquire(self, patience: Patience) -> bool:
        contender = [
            *self._session.query,
            ("acquire", self._session.id),
            ("flags", str(SEMAPHORE_FLAGS)),
        ]
        if b"true" not in self._api.send("PUT", self._path(self._session.id), contender):
            raise CommandFailed("Lock acquisition failed: failed to make contender entry")
        is_acquired = False
        try:
            is_acquired = self._enter(patience)
        finally:
            if not is_acquired:
                self._contend_no_more()
        return is_acquired

    def _enter(self, patience: Patience) -> bool:
        wait: list[tuple[str, str]] = []
        while True:
            entries = self._entries(self._api, wait)
            holders, modified = self._holders(entries)
            if len(holders) < self._limit:
                if self._write([*holders, self._session.id], modified):
                    return True
                wait = []
                continue
            if patience.is_over():
                return False
            wait = _waiting(self._index, patience.at_most(WAIT_S))

    def is_held(self, api: Api) -> bool:
        entries = self._entries(api, [("consistent", "1"), *_waiting(self._index, WAIT_S)])
        return self._session.id in self._holders(entries)[0]

    def release(self) -> None:
        while True:
            holders, modified = self._holders(self._entries(self._api, []))
            others = [each for each in holders if each != self._session.id]
            if others == holders or self._write(others, modified):
                break
        self._contend_no_more()

    def clean_up(self) -> bool:
        holders, modified = self._holders(self._entries(self._api, []))
        if holders:
            return False
        query = [*self._session.query, ("cas", str(modified))]
        return b"true" in self._api.send("DELETE", self._path(".lock"), query)

    def _contend_no_more(self) -> None:
        self._api.send("DELETE", self._path(self._session.id), self._session.query)

    def _path(self, name: str) -> str:
        return f"/v1/kv/{self._prefix}/{name}"

    def _entries(self, api: Api, query: list[tuple[str, str]]) -> list[dict[str, Any]]:
        found = _entries(api, f"{self._prefix}/", [*self._session.query, ("recurse", "1"), *query])
        self._index = int(api.header("X-Consul-Index") or 0)
        return found

    def _holders(self, entries: list[dict[str, Any]]) -> tuple[list[str], int]:
        """Those that live, and the index with which the list may be changed."""
        lock = next((each for each in entries if each["Key"] == f"{self._prefix}/.lock"), None)
        if lock is None:
            return [], 0
        if lock["Flags"] != SEMAPHORE_FLAGS:
            raise CommandFailed("Lock acquisition failed: Existing key does not match semaphore use")
        said = json.loads(b64decode(lock["Value"] or ""))
        if said["Limit"] != self._limit:
            raise CommandFailed(
                f"Lock acquisition failed: {LIMIT_CONFLICT.format(said['Limit'], self._limit)}"
            )
        alive = {each.get("Session") for each in entries}
        return [each for each in said["Holders"] or {} if each in alive], int(lock["ModifyIndex"])

    def _write(self, holders: list[str], modified: int) -> bool:
        value = json.dumps({"Limit": self._limit, "Holders": dict.fromkeys(holders, True)})
        query = [*self._session.query, ("cas", str(modified)), ("flags", str(SEMAPHORE_FLAGS))]
        return b"true" in self._api.send("PUT", self._path(".lock"), query, value.encode())


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
