"""The sessions of the state machine here, as far as it has applied the log: what the keeper knows of them."""

from __future__ import annotations

from adsum.session import EndedSession, Session
from adsum.store.machine import StoreMachine


class KeptSessions:
    def __init__(self, machine: StoreMachine) -> None:
        self._machine = machine

    @property
    def revision(self) -> int:
        """Another one when a session came or went."""
        return self._machine.sessions.revision

    def ids(self) -> list[str]:
        return self._machine.sessions.ids()

    def changed_since(self, revision: int) -> list[str] | None:
        """The ids of those that came or went; None: nobody remembers so far back."""
        table = self._machine.sessions
        if revision < table.recent_floor:
            return None
        changed: dict[str, None] = {}
        for change in reversed(table.recent):
            if change.revision <= revision:
                break
            changed[change.id] = None
        return list(reversed(changed))

    def get(self, session_id: str) -> Session | None:
        return self._machine.sessions.get(session_id)

    def ended(self, session_id: str) -> EndedSession | None:
        """While that is remembered."""
        return self._machine.sessions.ended.get(session_id)

    def keys_held(self, session_id: str) -> int:
        return self._machine.keys_held_by(session_id)
