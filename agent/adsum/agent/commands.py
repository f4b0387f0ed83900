"""What the outside asks of the composite core, and what it reports back about effects it performed."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from adsum.agent.settings import AgentSettings
from adsum.catalog.definitions import CheckDefinition, CheckStatus, ServiceDefinition
from adsum.catalog.effects import CheckRan
from adsum.effects import AnsweredWith, AskTicket, NotPersisted, Persisted, Refusal, Value
from adsum.frozen import dataclass

if TYPE_CHECKING:  # loaded with gossip, which starts when DNS answers already
    from adsum.agent.known_servers import LeadershipSeen
    from adsum.catalog.replication.store_news import StoreNews
    from adsum.gossip import commands as gossip_commands


class CommandRefused(Exception):
    """Raised by the rim to whoever gave the command; nothing was changed."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.sentence)
        self.refusal = refusal


class Submit(Protocol):
    """How the rim is asked; returns once the change is made and, where it must survive, on disk. Raises
    `CommandRefused`."""

    def __call__(self, command: AnsweredWith[Value], /) -> Awaitable[Value]: ...


@dataclass(frozen=True, slots=True)
class RegisterService(AnsweredWith[None]):
    definition: ServiceDefinition
    replace_existing_checks: bool = False


@dataclass(frozen=True, slots=True)
class DeregisterService(AnsweredWith[None]):
    service_id: str


@dataclass(frozen=True, slots=True)
class RegisterCheck(AnsweredWith[None]):
    definition: CheckDefinition


@dataclass(frozen=True, slots=True)
class DeregisterCheck(AnsweredWith[None]):
    check_id: str


@dataclass(frozen=True, slots=True)
class ReportTtl(AnsweredWith[None]):
    check_id: str
    status: CheckStatus
    output: str


@dataclass(frozen=True, slots=True)
class SetNodeMaintenance(AnsweredWith[None]):
    is_enabled: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SetServiceMaintenance(AnsweredWith[None]):
    service_id: str
    is_enabled: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reload(AnsweredWith[None]):
    """New settings, with the services and checks that configuration files define now."""

    settings: AgentSettings


@dataclass(frozen=True, slots=True)
class OverrideTags(AnsweredWith[None]):
    """By somebody who does not own the service, where its owner allows that."""

    service_id: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfirmCatalog(AnsweredWith[None]):
    """Done when this agent has all that two other members have now."""


@dataclass(frozen=True, slots=True)
class WriteAll:
    """By nobody but the core itself: everything that is to be on disk, again, and nothing besides."""

    found: tuple[str, ...] = ()  # registrations that lie there: the earlier folder may have come back


# What must be on disk before it is so.
Registration = (
    RegisterService
    | DeregisterService
    | RegisterCheck
    | DeregisterCheck
    | SetNodeMaintenance
    | SetServiceMaintenance
    | OverrideTags
)
OwnCommand = Registration | ReportTtl | Reload
Command: TypeAlias = "OwnCommand | ConfirmCatalog | gossip_commands.Command"


@dataclass(frozen=True, slots=True)
class FolderLost:
    """The data folder is another: it was deleted or emptied, and begun anew, or is mounted again."""

    found: tuple[str, ...] = ()  # paths of the registrations in it


@dataclass(frozen=True, slots=True)
class MemberAsked:
    """Another agent's question; answered by `AnswerMember` among the effects of this message."""

    ticket: int
    sender: bytes  # its short id
    method: str
    body: bytes


@dataclass(frozen=True, slots=True)
class MemberAnswered:
    ticket: AskTicket
    body: bytes | None  # None: the question failed


ClusterReport: TypeAlias = "LeadershipSeen | StoreNews | gossip_commands.Report"
RollMessage: TypeAlias = "gossip_commands.Datagram | MemberAsked | MemberAnswered | ClusterReport"
Message: TypeAlias = "Persisted | NotPersisted | FolderLost | CheckRan | RollMessage"
