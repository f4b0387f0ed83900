"""What a core asks of the world. A core never acts: it returns these, in order, and the rim performs them.

The rim interprets each kind in one place (`process.node`), the simulator in another (`testing.world`). What
only one core asks for stands with that core; `agent.effects` has all of them.
"""

from __future__ import annotations

import enum
from typing import Generic, TypeVar

from adsum.address import Address
from adsum.frozen import dataclass
from adsum.named import NamedTuple
from adsum.topics import Topic

Value = TypeVar("Value")


class AnyCommand:
    """Whatever it is answered with."""

    __slots__ = ()


class AnsweredWith(AnyCommand, Generic[Value]):
    """What every command is: its reply carries a value of this type, mostly None."""

    __slots__ = ()


class RefusalCause(enum.Enum):
    """Why a command was refused; the API turns it into a status code."""

    INVALID = "invalid"  # the caller must change the request
    UNKNOWN = "unknown"  # what it names does not exist here
    FAILED = "failed"  # well formed, but it cannot be done as things stand
    UNCERTAIN = "uncertain"  # nobody knows: it may have been done, or may yet be


@dataclass(frozen=True, slots=True)
class Refusal:
    cause: RefusalCause
    sentence: str


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Replace the file as a whole: after a crash it holds the old content or the new."""

    path: str  # below the data folder, with "/" between parts
    content: bytes


@dataclass(frozen=True, slots=True)
class RemoveFile:
    path: str


FileChange = WriteFile | RemoveFile


@dataclass(frozen=True, slots=True)
class Persist:
    """Make all of these survive a power loss and answer `Persisted(ticket)`; or none, and `NotPersisted`."""

    ticket: int
    changes: tuple[FileChange, ...]


@dataclass(frozen=True, slots=True)
class Persisted:
    ticket: int


@dataclass(frozen=True, slots=True)
class NotPersisted:
    """The disk refused, and is as it was before."""

    ticket: int
    reason: str  # and what to do about it


@dataclass(frozen=True, slots=True)
class Save:
    """Nobody waits for these. What the disk refuses now is tried again until it is there."""

    changes: tuple[FileChange, ...]
    is_synced: bool  # a power loss must not take it


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of one command: done, or refused with nothing changed, unless the cause is `UNCERTAIN`."""

    request: int
    refusal: Refusal | None
    value: object = None  # what the command says that it is answered with; see `answer`


def answer(request: int, _command: AnsweredWith[Value], value: Value) -> Reply:
    """Of a command that is done and has something to say; mypy checks that it is of the declared type."""
    return Reply(request, None, value)


@dataclass(frozen=True, slots=True)
class Notify:
    """These topics moved: wake who waits on them."""

    topics: tuple[Topic, ...]


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Of the servers: this one leads from now on, or leads no longer and nobody does."""

    node_id: bytes
    name: str  # empty where gossip does not know it
    address: Address | None
    is_leading: bool
    term: int
    cause: str  # in the words of consensus; empty where only gossip tells


class Severity(enum.Enum):
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LogLine:
    severity: Severity
    sentence: str


class AskTicket(NamedTuple):
    """Comes back with the answer: which part of a core asked, and which of its questions that was."""

    asker: str
    number: int


@dataclass(frozen=True, slots=True)
class AskMember:
    """A question to another agent; answer with `MemberAnswered(ticket, …)`, also when it failed."""

    ticket: AskTicket
    to: Address | None  # None: it is gone, so the question failed
    method: str
    body: bytes


@dataclass(frozen=True, slots=True)
class AnswerMember:
    """To what `MemberAsked(ticket, …)` asked."""

    ticket: int
    body: bytes
