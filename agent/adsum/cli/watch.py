"""`adsum watch -type=TYPE [COMMAND…]`: what there is, once; or a command for each change of it, as Consul's.

The command finds what there is now on its standard input, as JSON, and its index in CONSUL_INDEX. While it
runs nothing is asked, so that several changes may be one to it. If it fails, so does the watch. An agent that
cannot be reached for a while is tried again.
"""

from __future__ import annotations

import http
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from adsum.cli.command import FALSE, OK, TRUE, Command, CommandFailed, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import (
    CONNECTION,
    QUERY,
    AgentRefused,
    AgentUnreachable,
    Api,
    blaming_flags,
    connect,
)
from adsum.watch_plan import (
    HAS_MET_NOBODY,
    JOINING,
    PARAMETERS,
    STALE,
    BadWatch,
    News,
    Watcher,
    plan_of,
)

WAIT = "25s"  # of one blocked read: with what an agent adds to it, less than an answer may take
RETRY_S_MIN, RETRY_S_MAX = 1.0, 30.0
DEFAULT_SHELL = "/bin/sh"
INDEX = "CONSUL_INDEX"
TEXTS = ("key", "prefix", "service", "state", "name", "filter")
ASKED_AGAIN = (429, 500, 502, 503, 504)  # of an agent in want of something, or of a proxy before it


class HasMetNobody(CommandFailed):
    pass


def run(call: ParsedCommand) -> int:
    watcher = _watcher(call)
    signals = _Signals()
    with signals.end_it():
        for news in _news(call, watcher):
            if not call.words:
                print(json.dumps(news.data, indent=4, ensure_ascii=False))
                return OK
            _handle(call, news, signals)
    return OK


def _watcher(call: ParsedCommand) -> Watcher:
    given = {name: call.text(name) for name in TEXTS}
    passing_only = call.text("passingonly", "false")
    if passing_only not in TRUE + FALSE:
        raise UsageError(f'-passingonly is true or false, not "{passing_only}"')
    try:
        return Watcher(
            plan_of(
                *(call.text("type"), given, tuple(call.texts("tag"))),
                passing_only=passing_only in TRUE,
                stale=call.is_on("stale"),
                datacenter=call.text("datacenter"),
            )
        )
    except BadWatch as bad:
        raise UsageError(f"{bad}: -type=TYPE" if not call.text("type") else str(bad)) from None


def _news(call: ParsedCommand, watcher: Watcher) -> Iterator[News]:
    """An agent that answered once may be away for a while; one that never did is not waited for."""
    has_answered, retry_s = False, RETRY_S_MIN
    while True:
        try:
            with connect(call) as api:
                while True:
                    news = _asked(api, watcher)
                    has_answered, retry_s = True, RETRY_S_MIN
                    if news is not None:
                        yield news
        except (AgentRefused, AgentUnreachable, HasMetNobody) as problem:
            if not _passes(problem, has_answered=has_answered):
                raise
            print(f"adsum: watch: {problem}; asking again in {retry_s:.0f} s", file=sys.stderr, flush=True)
            time.sleep(retry_s * random.uniform(0.8, 1.2))  # so that not all come at once
            retry_s = min(2 * retry_s, RETRY_S_MAX)


def _asked(api: Api, watcher: Watcher) -> News | None:
    answer: object = None
    try:
        with blaming_flags():
            answer = json.loads(api.send("GET", watcher.plan.path, [*watcher.query(), ("wait", WAIT)]))
    except AgentRefused as refused:
        if refused.code != http.HTTPStatus.NOT_FOUND or not watcher.plan.is_of_keys:
            raise
    except ValueError:
        raise CommandFailed(
            f"what listens at {api.shown} answers, but not in JSON as an agent would"
        ) from None
    if api.header(STALE) == JOINING:
        raise HasMetNobody(HAS_MET_NOBODY)
    try:
        index = int(api.header("X-Consul-Index"))
    except ValueError:
        raise CommandFailed(f"what listens at {api.shown} answers without an index") from None
    return watcher.heard(max(index, 1), answer)


def _handle(call: ParsedCommand, news: News, signals: _Signals) -> None:
    words: Sequence[str] = call.words
    if call.text("shell", "true") not in FALSE:
        words = [os.environ.get("SHELL") or DEFAULT_SHELL, "-c", " ".join(words)]
    said = json.dumps(news.data, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    sys.stdout.flush()
    with signals.passed_on() as pass_on:
        try:
            environment = os.environ | {INDEX: str(news.index)}
            child = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE)
        except OSError as problem:
            raise CommandFailed(f"Error starting handler: {words[0]}: {problem.strerror}") from None
        pass_on(child)
        child.communicate(said)  # also if it does not read all of it
    if child.returncode > 0:
        raise CommandFailed(f"Error executing handler: exit status {child.returncode}")
    if child.returncode < 0:
        name = signal.strsignal(-child.returncode) or str(-child.returncode)
        raise CommandFailed(f"Error executing handler: signal: {name.lower()}")


def _passes(problem: CommandFailed, *, has_answered: bool) -> bool:
    match problem:
        case AgentUnreachable():
            return has_answered
        case AgentRefused():
            return problem.code in ASKED_AGAIN
        case _:
            return True


class _Signals:
    """How one stops watching. The command that runs is told as well, and waited for."""

    def __init__(self) -> None:
        self._is_handling = False
        self._child: subprocess.Popen[bytes] | None = None
        self._told = 0

    @contextmanager
    def end_it(self) -> Iterator[None]:
        before = {each: signal.signal(each, self._come) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        except KeyboardInterrupt:
            return
        finally:
            for each, earlier in before.items():
                signal.signal(each, earlier)

    @contextmanager
    def passed_on(self) -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
        self._is_handling = True
        try:
            yield self._pass_on
        finally:
            self._is_handling, self._child = False, None
            if self._told:
                raise KeyboardInterrupt

    def _pass_on(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        if self._told:  # while it was started
            child.send_signal(self._told)

    def _come(self, number: int, _frame: FrameType | None) -> None:
        """Ends the process here and now where nothing runs: Python swallows what is raised while it calls a
        finalizer, and the signal would be lost."""
        self._told = number
        if not self._is_handling:
            os._exit(OK)
        if self._child is not None:
            self._child.send_signal(number)


COMMAND = Command(
    run,
    arguments="[COMMAND…]",
    flags=(
        CommandFlag("type", "What to watch.", "TYPE", choices=tuple(PARAMETERS)),
        CommandFlag("key", "The key, for the type key.", "KEY"),
        CommandFlag("prefix", "What the keys begin with, for the type keyprefix.", "PREFIX"),
        CommandFlag("service", "The service, for the types service and checks.", "NAME"),
        CommandFlag("tag", "Only instances with this tag, for the type service.", "TAG", is_repeatable=True),
        CommandFlag("passingonly", "Only instances that pass, for the type service.", "true|false"),
        CommandFlag("state", "Only checks in this state, for the type checks.", "STATE"),
        CommandFlag("name", "Only events of this name, for the type event.", "NAME"),
        CommandFlag("filter", "Only what this expression is true of; not for keys and events.", "EXPRESSION"),
        CommandFlag("shell", "Run the command by $SHELL; -shell=false takes its words as they are."),
    ),
    groups=(CONNECTION, QUERY),
    about="Without a command it prints what there is, once. With one it runs the command now and for each\n"
    "change, with what there is on its standard input, as JSON, and the index in CONSUL_INDEX; it goes on\n"
    "until a signal, or until the command fails.",
    flags_come_first=True,
)
