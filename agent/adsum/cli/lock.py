"""`adsum lock PREFIX COMMAND…`: runs a command while holding a lock, as Consul's does.

The command finds CONSUL_LOCK_HELD=true in its environment, and its fencing token in ADSUM_FENCING_TOKEN: what
it writes with `?if-token=` is refused once somebody else has held the lock since. When the lock is lost it is
told to end, with all that it started, and killed if it does not.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from adsum.cli.command import FAILURE, OK, Command, CommandFailed, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, QUERY, Api, connect
from adsum.cli.locked_command import GRACE_S, LOOK_S, LockedCommand
from adsum.cli.locking import (
    LOCK,
    MONITOR_RETRY_S,
    TTL_S,
    Held,
    KeyLock,
    KeySemaphore,
    LockSession,
    Patience,
    below,
    cleaned,
    until_lost,
)

CHILD_FAILED = 2
DEFAULT_SHELL = "/bin/sh"
OUT_OF_TIME = "Shutdown triggered or timeout during lock acquisition"
HELD, TOKEN = "CONSUL_LOCK_HELD", "ADSUM_FENCING_TOKEN"
RENEWAL_S_MAX = TTL_S / 2  # for its answer; the next one is asked for over another connection
IN_DOUBT_S = 2 * TTL_S - GRACE_S - 2  # without a renewal; 2 s for what is slow


def run(call: ParsedCommand) -> int:
    prefix, command = cleaned(call.words[0].removeprefix("/")), list(call.words[1:])
    limit, retries = _number(call, "n", 1), _number(call, "monitor-retry", 3)
    if limit <= 0:
        raise UsageError("Lock holder limit must be positive")
    if limit > 1 and not prefix:
        raise UsageError("a semaphore needs a prefix")
    if retries < 0:
        raise UsageError("Number for monitor-retry must be >= 0")
    patience_s = _patience_s(call)
    at = call.words[0].removeprefix("/")
    name = call.text("name") or f"Consul lock for '{' '.join(command)}' at '{at}'"
    say = _Saying(is_verbose=call.is_on("verbose"))
    told = _ToldToEnd()
    # What was begun is undone: a signal waits until the session is known, and disturbs no release.
    with connect(call) as api, connect(call, RENEWAL_S_MAX) as renewing, _on_signals(told.by_signal):
        asked_s = now_s()
        session = LockSession(api, name, call.text("datacenter"), deletes_keys=limit > 1)
        try:
            with _KeptAlive(session, renewing, asked_s) as kept:
                held: Held
                if limit == 1:
                    say.more(f"Setting up lock at path: {below(prefix, LOCK)}")
                    held = KeyLock(below(prefix, LOCK), session)
                else:
                    say.more(f"Setting up semaphore (limit {limit}) at prefix: {prefix}")
                    held = KeySemaphore(prefix, session, limit)
                return _UnderLock(call, held, kept, told, say).run(api, patience_s, command, retries)
        finally:
            with connect(call) as last:
                session.destroy(last)


class _UnderLock:
    """What is done with a lock by one who asked for it: it is acquired, the command runs, it is let go."""

    def __init__(
        self, call: ParsedCommand, held: Held, kept: _KeptAlive, told: _ToldToEnd, say: _Saying
    ) -> None:
        self._call = call
        self._held = held
        self._kept = kept
        self._told = told
        self._say = say

    def run(self, api: Api, patience_s: float | None, words: Sequence[str], retries: int) -> int:
        self._say.more("Attempting lock acquisition")
        patience = Patience(patience_s, (self._told.check, self._kept.check))
        is_acquired = False
        try:
            with _on_signals(self._told.by_signal_at_once):
                patience.check()
                is_acquired = self._held.acquire(api, patience)
            if not is_acquired:
                print(OUT_OF_TIME, file=sys.stderr)
                return FAILURE
            patience.check()
            return self._run_command(words, retries)
        finally:  # also what was acquired without our hearing of it
            self._let_go(self._say if is_acquired else _Saying(is_verbose=False))

    def _run_command(self, words: Sequence[str], retries: int) -> int:
        say, held = self._say, self._held
        say.more("Starting handler")
        environment = {**os.environ, HELD: "true", **({TOKEN: held.token} if held.token else {})}
        if self._call.text("shell", "true") not in ("0", "f", "F", "FALSE", "false", "False"):
            words = [os.environ.get("SHELL") or DEFAULT_SHELL, "-c", " ".join(words)]
        lost, is_over = threading.Event(), threading.Event()
        self._kept.tells(lost)

        def watch() -> None:
            # What is no lock of ours any more may hold anything.
            with suppress(Exception), connect(self._call) as watching_api:
                until_lost(held, watching_api, retries, is_over.is_set)
            lost.set()

        # Within another's, which kills us after its own.
        grace_s = GRACE_S / 2 if HELD in os.environ else GRACE_S
        command = LockedCommand(words, environment, grace_s, reads_stdin=self._call.is_on("pass-stdin"))
        reason, ending = "", list[str]()
        try:
            threading.Thread(target=watch, daemon=True).start()
            while not (reason := self._reason_to_end(lost)) and not command.has_ended():
                lost.wait(LOOK_S)
        finally:  # whatever happened, it does not run on without the lock
            is_over.set()
            is_done = not reason and command.has_ended() and command.status >= 0
            if not is_done:
                ending = command.end(say.always)
        if reason:
            say.always(f"{reason}, killing child")
        for sentence in ending or ["Child terminated, releasing lock"]:
            say.more(sentence)
        return _status_of(command.status, self._call, say)

    def _reason_to_end(self, lost: threading.Event) -> str:
        if self._told.is_so:
            return "Shutdown triggered"
        if self._kept.is_in_doubt():
            return f"No renewal of the session succeeded for {IN_DOUBT_S:.0f} s"
        return "Lock lost" if lost.is_set() else ""

    def _let_go(self, say: _Saying) -> None:
        """Over a new connection: the one it was acquired over has been silent while the command ran. What
        fails is made up for by the end of the session."""
        try:
            with connect(self._call) as api:
                self._held.release(api)
                say.more("Cleanup succeeded" if self._held.clean_up(api) else "Cleanup aborted, lock in use")
        except CommandFailed as problem:
            say.more(f"Lock release failed: {problem}")


def _ends_us() -> list[signal.Signals]:
    """The latter two do unless somebody asked for them not to."""
    asked = [each for each in (signal.SIGHUP, signal.SIGQUIT) if signal.getsignal(each) is not signal.SIG_IGN]
    return [signal.SIGTERM, signal.SIGINT, *asked]


@contextmanager
def _on_signals(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    before = {each: signal.signal(each, handler) for each in _ends_us()}
    try:
        yield
    finally:
        for each, earlier in before.items():
            signal.signal(each, earlier)


def _status_of(status: int, call: ParsedCommand, say: _Saying) -> int:
    if status == 0:
        return OK
    if status < 0:
        told = f"signal: {signal.strsignal(-status) or -status}".lower()
    else:
        told = f"exit status {status}"
    say.always(f"Error running handler: {told}")
    return CHILD_FAILED if call.is_on("child-exit-code") else OK


def now_s() -> float:
    """Of a clock that goes on while the host is suspended, for the session does."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class _ToldToEnd:
    """By a signal. No `Event`: its lock is not reentrant, and who is interrupted while it waits for one would
    wait for itself."""

    def __init__(self) -> None:
        self.is_so = False

    def by_signal(self, _signal: int, _frame: FrameType | None) -> None:
        self.is_so = True

    def by_signal_at_once(self, _signal: int, _frame: FrameType | None) -> None:
        """Both, for out of a finalizer nothing is raised."""
        self.is_so = True
        raise CommandFailed(OUT_OF_TIME)

    def check(self) -> None:
        if self.is_so:
            raise CommandFailed(OUT_OF_TIME)


class _KeptAlive:
    """Renews a session, from another thread over a connection of its own."""

    def __init__(self, session: LockSession, api: Api, asked_s: float) -> None:
        self._session = session
        self._api = api
        self._over = threading.Event()
        self._lost: threading.Event | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._is_gone = False
        # When the last renewal that succeeded was sent: from then on it lives for at least twice its TTL.
        self._renewed_s = asked_s

    def __enter__(self) -> _KeptAlive:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._over.set()

    def tells(self, lost: threading.Event) -> None:
        self._lost = lost
        if self._is_gone:
            lost.set()

    def check(self) -> None:
        if self._is_gone:
            raise CommandFailed("Lock acquisition failed: the session ended while it waited")
        if self.is_in_doubt():
            raise CommandFailed("Lock acquisition failed: no renewal of the session succeeds")

    def is_in_doubt(self) -> bool:
        """It may end before a command that is told to end now has ended."""
        return now_s() - self._renewed_s > IN_DOUBT_S

    def _run(self) -> None:
        wait_s = TTL_S / 2
        while not self._over.wait(wait_s):
            asked_s = now_s()
            try:
                is_alive = self._session.renew(self._api)
            except CommandFailed:
                wait_s = MONITOR_RETRY_S
                continue
            if not is_alive:
                self._is_gone = True
                if self._lost is not None:
                    self._lost.set()
                return
            self._renewed_s, wait_s = asked_s, TTL_S / 2


class _Saying:
    def __init__(self, *, is_verbose: bool) -> None:
        self._is_verbose = is_verbose

    def more(self, sentence: str) -> None:
        if self._is_verbose:
            self.always(sentence)

    def always(self, sentence: str) -> None:
        with suppress(OSError):  # that nobody listens any more is no reason to leave the rest undone
            print(sentence, file=sys.stderr, flush=True)


def _number(call: ParsedCommand, flag: str, default: int) -> int:
    try:
        return int(call.text(flag, str(default)))
    except ValueError:
        raise UsageError(f'-{flag} is a number, not "{call.text(flag)}"') from None


def _patience_s(call: ParsedCommand) -> float | None:
    from adsum.durations import BadDuration, parse_duration

    text = call.text("timeout") or call.text("try")
    if not text:
        return None
    try:
        ns = parse_duration(text)
    except BadDuration as bad:
        raise UsageError(f"-timeout: {bad}") from None
    if ns < 0:
        raise UsageError("Timeout must be positive")
    return ns / 1e9 if ns else None


COMMAND = Command(
    run,
    arguments="PREFIX COMMAND…",
    flags=(
        CommandFlag("n", "So many may hold it at once; 1 if not given.", "NUMBER"),
        CommandFlag("name", "Name of the session; the command and the prefix if not given.", "NAME"),
        CommandFlag("timeout", "Give up if the lock is not acquired within this.", "DURATION"),
        CommandFlag("try", "The same; Consul's old name for it.", "DURATION"),
        CommandFlag("monitor-retry", "So often a failed look at the lock is tried again; 3.", "NUMBER"),
        CommandFlag("child-exit-code", "Exit status 2 if the command fails; else 0."),
        CommandFlag("pass-stdin", "The command reads our standard input."),
        CommandFlag("shell", "Run the command by $SHELL, as one line; the default. -shell=false runs it."),
        CommandFlag("verbose", "Tell what is done."),
    ),
    groups=(CONNECTION, QUERY),
    flags_come_first=True,
    about="The command finds CONSUL_LOCK_HELD=true in its environment, and its fencing token in\n"
    "ADSUM_FENCING_TOKEN. When the lock is lost, or no renewal succeeded for 23 s, it gets SIGTERM, and\n"
    "SIGKILL 5 s later, and so does all that it started, except at a terminal.",
)
