"""The store of keys and sessions as a client agent reaches it: through the servers.

What is asked of which server, again and until when, is decided by `agent.forwarding`; here it is carried out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import trio

from adsum import forwarded
from adsum.agent.asking import (
    AnswerForwarded,
    AskServer,
    CancelAsk,
    ForwardCommand,
    ForwardEffect,
    ForwardRead,
    ForwardRenewal,
    ForwardReport,
    ForwardWrite,
    GiveUpForwarded,
    ServerAnswered,
    ServerRefused,
    ServersChanged,
    ServerUnreached,
)
from adsum.agent.forwarding import Forwarding
from adsum.effects import Save
from adsum.kv import KeyCause, KeyRead, KeyWrite, ReadAnswered, ReadsKeyAgain, WriteAnswered
from adsum.kv_history import HistoryAnswered
from adsum.logs.faults import Faults
from adsum.net.call_server import BUSY
from adsum.net.calls import CallError, Declined, NotSent
from adsum.net.gate import Gate
from adsum.now import SECOND, Now
from adsum.peers.server_lines import LINES_MAX, ServerLineCounters, ServerLines
from adsum.store_requests import KeyHistoryRead, RenewAnswered, StoreChange, StoreRead, StoreReadAnswered

FAULT_PAUSE_S = 1.0  # what was due may still be, and must not take all of the loop


class _Asked:
    """What is given up by; each its own, whatever is called with the answer."""

    __slots__ = ("answered",)

    def __init__(self, answered: Callable[[Any], None]) -> None:
        self.answered = answered


class ClientKeys:
    """It is a `KeyStore`."""

    consensus = None  # a client takes no part

    def __init__(
        self,
        core: Forwarding,
        gate: Gate,
        random: Random,
        now: Callable[[], Now],
        save: Callable[[Save], None],
        faults: Faults,
        *,
        lines_max: int = LINES_MAX,
    ) -> None:
        self.core = core
        self._lines = ServerLines(gate, core.address_of, random, lines_max=lines_max)
        self._now = now
        self._save = save
        self._faults = faults
        self._asks: dict[
            int, tuple[float, Callable[[], CallError]]
        ] = {}  # by ticket: until when, gives it up
        self._nap = trio.CancelScope()
        self._alarm_ns = math.inf  # when the nap ends for the core; perhaps before there is anything to do
        self._unsent: list[ServerUnreached] = []  # what the core is still to be told of

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled. What is asked while nobody runs it waits."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._lines.run)
            self._perform(self.core.receive(self._now(), ServersChanged()))
            task_status.started()
            while True:
                with trio.CancelScope() as self._nap:
                    self._alarm_ns = math.inf
                    self._set_alarm()
                    self._nap_until(
                        min([until_s for until_s, _give_up in self._asks.values()], default=math.inf)
                    )
                    await trio.sleep_forever()
                try:
                    self._end_late_asks()
                    self._perform(self.core.tick(self._now()))
                except Exception as error:
                    self._faults.dropped("tick", error)
                    await trio.sleep(FAULT_PAUSE_S)

    @property
    def line_counters(self) -> ServerLineCounters:
        return self._lines.counters

    # What the endpoints ask.

    @property
    def waits_for(self) -> str:
        return self.core.waits_for

    def write(self, write: KeyWrite | StoreChange, answered: WriteAnswered) -> object:
        token = _Asked(answered)
        self._command(ForwardWrite(write, token))
        return token

    def read(self, read: KeyRead, answered: ReadAnswered) -> object:
        token = _Asked(answered)
        self._command(ForwardRead(read, token))
        return token

    def read_again(self, reader: ReadsKeyAgain, asker: Any) -> None:
        self._command(ForwardRead(reader.read, _Asked(partial(reader.told, asker))))

    def ask(self, read: StoreRead, answered: StoreReadAnswered) -> object:
        token = _Asked(answered)
        self._command(ForwardRead(read, token))
        return token

    def renew(self, session_id: str, answered: RenewAnswered) -> object:
        token = _Asked(answered)
        self._command(ForwardRenewal(session_id, token))
        return token

    def history(self, key: bytes, answered: HistoryAnswered) -> object:
        """As the server has it that is asked."""
        token = _Asked(answered)
        self._command(ForwardRead(KeyHistoryRead(key), token))
        return token

    def give_up(self, asked: object) -> None:
        if asked is not None:
            self._command(GiveUpForwarded(asked))

    # What gossip tells.

    def member_changed(self) -> None:
        """It may have been a server, or have become the leader."""
        if self.core.has_news:
            self._receive(ServersChanged())

    # Inside.

    def _command(self, command: ForwardCommand) -> None:
        self._perform(self.core.command(self._now(), command))

    def _receive(self, report: ForwardReport) -> None:
        try:
            self._perform(self.core.receive(self._now(), report))
        except Exception as error:  # what servers say may be anything
            self._faults.dropped("call", error)

    def _perform(self, effects: list[ForwardEffect]) -> None:
        for effect in effects:
            match effect:
                case AskServer():
                    self._ask(effect)
                case CancelAsk(ticket):
                    if ticket in self._asks:
                        _until_s, give_up = self._asks.pop(ticket)
                        give_up()
                case AnswerForwarded(token, outcome):
                    assert isinstance(token, _Asked), "as it was asked"
                    token.answered(outcome)
                case Save():
                    self._save(effect)
        while self._unsent:
            self._perform(self.core.receive(self._now(), self._unsent.pop()))
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Only ever to an earlier time: most of what is due is over by then."""
        due_ns = self.core.deadline()
        if due_ns is not None and due_ns < self._alarm_ns:
            self._alarm_ns = due_ns
            self._nap_until(trio.current_time() + (due_ns - self._now().monotonic_ns) / SECOND)

    def _nap_until(self, at_s: float) -> None:
        if at_s < self._nap.deadline:
            self._nap.deadline = at_s

    # Asks: they take no tasks, for there are thousands.

    def _ask(self, asked: AskServer) -> None:
        timeout_s, ended = asked.timeout_ns / SECOND, partial(self._ended, asked.ticket)
        try:
            give_up = self._lines.begin(asked.node_id, asked.method, asked.body, ended, timeout_s=timeout_s)
        except NotSent as error:
            self._unsent.append(_unreached(asked.ticket, error))
        else:
            until_s = trio.current_time() + timeout_s
            self._asks[asked.ticket] = until_s, give_up
            self._nap_until(until_s)

    def _ended(self, ticket: int, outcome: bytes | CallError) -> None:
        del self._asks[ticket]
        if isinstance(outcome, bytes):
            self._receive(ServerAnswered(ticket, outcome))
        elif isinstance(outcome, Declined):
            self._receive(_refused(ticket, outcome))
        else:
            self._receive(_unreached(ticket, outcome))

    def _end_late_asks(self) -> None:
        now_s = trio.current_time()
        late = [(ticket, give_up) for ticket, (until_s, give_up) in self._asks.items() if until_s <= now_s]
        for ticket, give_up in late:
            if self._asks.pop(ticket, None) is not None:  # else it was cancelled for what another one meant
                self._receive(_unreached(ticket, give_up()))


def _unreached(ticket: int, error: CallError) -> ServerUnreached:
    return ServerUnreached(ticket, not isinstance(error, NotSent), str(error))


def _refused(ticket: int, no: Declined) -> ForwardReport:
    cause, leader = forwarded.cause_and_leader(no.code)
    if no.code == BUSY:
        cause = KeyCause.BUSY
    if cause is None:  # a fault there; it may have been after it was done
        return ServerUnreached(ticket, is_sent=True, sentence=no.text)
    return ServerRefused(ticket, cause, no.text, leader)
