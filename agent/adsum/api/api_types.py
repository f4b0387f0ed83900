"""What the endpoints need from the agent behind them; `agent.node` is the real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from adsum.agent.commands import Command
from adsum.catalog.indexes import Topic
from adsum.catalog.own_services import Local
from adsum.catalog.view import View
from adsum.config.config import Config
from adsum.effects import Refusal
from adsum.now import Now

if TYPE_CHECKING:  # `Refused` is wanted before the roll is loaded
    from adsum.agent.cluster_state import Roll
    from adsum.journal.journal import Journal
    from adsum.peers.keyrings import Keyrings
    from adsum.peers.outputs import Outputs
    from adsum.peers.owner_forwarding import Owners


class Refused(Exception):
    """The core refused a command; nothing was changed."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.sentence)
        self.refusal = refusal


class Watches(Protocol):
    """Who sleeps until a topic moves. Waking is a plain call, so that a task per waiter is not needed."""

    def add(self, topic: Topic, wake: Callable[[], None]) -> None: ...

    def remove(self, topic: Topic, wake: Callable[[], None]) -> None: ...


class Agent(Protocol):
    @property
    def config(self) -> Config: ...

    @property
    def view(self) -> View: ...

    @property
    def own(self) -> Local: ...

    @property
    def roll(self) -> Roll:
        """Who is present. Read it; what changes it is a command."""

    @property
    def journal(self) -> Journal:
        """What happened to whom, as this agent saw it."""

    @property
    def keyrings(self) -> Keyrings:
        """Of the whole cluster."""

    @property
    def owners(self) -> Owners:
        """Other agents, for what only they can change."""

    @property
    def outputs(self) -> Outputs:
        """Whole outputs of other agents' checks."""

    @property
    def unsaved_files(self) -> int:
        """That are not in the data folder as they should be yet, because its disk refuses."""

    def now(self) -> Now: ...

    @property
    def monotonic_ns(self) -> Callable[[], int]:
        """The first half of `now`, at a quarter of its price: every read asks for it."""

    @property
    def watches(self) -> Watches: ...

    async def submit(self, command: Command) -> None:
        """Returns once the change is made and, where it must survive, on disk. Raises `Refused`."""

    async def reload(self) -> tuple[list[str], list[str]]:
        """Reads the configuration again; names of keys that were applied, and of those that need a restart.
        Raises `adsum.config.build.ConfigErrors` with nothing changed."""

    async def leave(self) -> None:
        """Begins an orderly end. Returns when the others were told and the disk has all; the answer to
        whoever asked still goes out."""
