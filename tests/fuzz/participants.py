"""Who appears in inputs: the agents under attack, the fuzzer as a member among them, and made-up members.

Ids are the same in every run, so that an input kept in a file still speaks of the agents. There are only so
many made-up members, owners and services, so that what an agent may rightly remember of them is bounded.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

AGENTS = 3
STRANGERS = 128
SHORT = 8


@dataclass(frozen=True, slots=True)
class Participant:
    node_id: bytes
    name: str
    port: str  # the name under which the sender knows it, see `trees.Known`

    @property
    def short(self) -> bytes:
        return self.node_id[:SHORT]

    @property
    def uuid_text(self) -> str:
        return str(uuid.UUID(bytes=self.node_id))


AGENTS_ATTACKED = tuple(Participant(bytes((0xA0 + n,)) * 16, f"n{n}", f"port{n}") for n in range(AGENTS))
FUZZER = Participant(b"\xf0" * 16, "fuzzer", f"port{AGENTS}")
STRANGERS_MADE_UP = tuple(
    Participant(bytes((0x10, n)) * 8, f"stranger-{n}", f"port{n % (AGENTS + 1)}") for n in range(STRANGERS)
)
# Nothing hostile is claimed about the fuzzer: it has to stay one whom agents tell and ask.
SUBJECTS = (*AGENTS_ATTACKED, *STRANGERS_MADE_UP)
EVERYBODY = (*AGENTS_ATTACKED, FUZZER, *STRANGERS_MADE_UP)
