"""`adsum lock PREFIX COMMAND…`: runs a command while holding a lock, as Consul's does.

The command finds CONSUL_LOCK_HELD=true in its environment, and its fencing token in ADSUM_FENCING_TOKEN: what
it writes with `?if-token=` is refused once somebody else has held the lock since. When the lock is lost it is
told to end, and killed if it does not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from adsum.cli.command import FAILURE, OK, Command, CommandFailed, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, QUERY, Api, connect
from adsum.cli.locking import (
    TTL_S,
    Held,
    KeyLock,
    KeySemaphore,
    LockSession,
    Patience,
    until_lost,
)

CHILD_FAILED = 2
LOOK_S = 0.05  # whether the command has ended
GRACE_S = 5.0  # between being told to end and being killed
DEFAULT_SHELL = "/bin/sh"
OUT_OF_TIME = "Shutdown triggered or timeout during lock acquisition"
HELD, TOKEN = "CONSUL_LOCK_HELD", "ADSUM_FENCING_TOKEN"


def run(call: ParsedCommand) -> int:
    prefix, command = call.words[0].removeprefix("/"), list(call.words[1:])
    limit, retries = _number(call, "n", 1), _number(call, "monitor-retry", 3)
    if limit <= 0:
        raise UsageError("Lock holder limit must be positive")
    if retries < 0:
        raise UsageError("Number for monitor-retry must be >= 0")
    patience_s = _patience_s(call)
    kind = "lock" if limit == 1 else "semaphore"
    name = call.text("name") or f"Consul {kind} for '{' '.join(command)}' at '{prefix}'"
    say = _Saying(is_verbose=call.is_on("verbose"))
    told = _ToldToEnd()
    # What was begun is undone: a signal waits until the session is known, and disturbs no release.
    with connect(call) as api, connect(call) as renewing, _on_signals(told.by_signal):
        session = LockSession(api, name, call.text("datacenter"))
        try:
            patience = Patience(patience_s, lambda: told.is_so)
            with _KeptAlive(session, renewing) as kept:
                return _hold(call, api, session, kept, prefix, command, limit, retries, patience, say, told)
        finally:
            with connect(call) as last:
                session.destroy(last)


def _hold(
    call: ParsedCommand,
    api: Api,
    session: LockSession,
    kept: _KeptAlive,
    prefix: str,
    command: Sequence[str],
    limit: int,
    retries: int,
    patience: Patience,
    say: _Saying,
    told: _ToldToEnd,
) -> int:
    held: Held
    if limit == 1:
        say.more(f"Setting up lock at path: {prefix}/.lock")
        held = KeyLock(api, f"{prefix}/.lock", session)
    else:
        say.more(f"Setting up semaphore (limit {limit}) at prefix: {prefix}")
        held = KeySemaphore(api, prefix, session, limit)
    say.more("Attempting lock acquisition")
    with _on_signals(told.by_signal_at_once):
        told.check()
        is_acquired = held.acquire(patience)
    if not is_acquired:
        print(OUT_OF_TIME, file=sys.stderr)
        return FAILURE
    try:
        told.check()
        return _run_child(call, command, held, retries, kept, say, told)
    finally:
        held.release()
        say.more("Cleanup succeeded" if held.clean_up() else "Cleanup aborted, lock in use")


def _run_child(
    call: ParsedCommand,
    command: Sequence[str],
    held: Held,
    retries: int,
    kept: _KeptAlive,
    say: _Saying,
    told: _ToldToEnd,
) -> int:
    say.more("Starting handler")
    environment = {**os.environ, HELD: "true", **({TOKEN: held.token} if held.token else {})}
    uses_shell = call.text("shell", "true") not in ("0", "f", "F", "FALSE", "false", "False")
    words = [os.environ.get("SHELL") or DEFAULT_SHELL, "-c", " ".join(command)] if uses_shell else command
    stdin = None if call.is_on("pass-stdin") else subprocess.DEVNULL
    lost, is_over = threading.Event(), threading.Event()
    kept.tells(lost)

    def watch() -> None:
        # What is no lock of ours any more may hold anything.
        with suppress(Exception), connect(call) as watching_api:
            until_lost(held, watching_api, retries, is_over.is_set)
        lost.set()

    try:
        child = subprocess.Popen(words, env=environment, stdin=stdin)
    except OSError as problem:
        raise CommandFailed(f"Error starting handler: {command[0]}: {problem.strerror}") from None
    try:
        threading.Thread(target=watch, daemon=True).start()
        while child.poll() is None and not told.is_so and not lost.wait(LOOK_S):
            pass
    finally:  # whatever happened, it does not run on without the lock
        is_over.set()
        if child.poll() is None:
            say.always("Lock lost, killing child")
            _end(child, say)
        else:
            say.more("Child terminated, releasing lock")
    return _status_of(child, call, say)


@contextmanager
def _on_signals(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    before = {each: signal.signal(each, handler) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, earlier in before.items():
            signal.signal(each, earlier)


def _end(child: subprocess.Popen[bytes], say: _Saying) -> None:
    say.more(f"Terminating child pid {child.pid}")
    child.terminate()
    try:
        child.wait(GRACE_S)
        say.more("Child terminated")
    except subprocess.TimeoutExpired:
        say.more(f"Child did not exit after grace period of {GRACE_S:.0f}s")
        child.kill()
        child.wait()


def _status_of(child: subprocess.Popen[bytes], call: ParsedCommand, say: _Saying) -> int:
    status = child.returncode
    if status == 0:
        return OK
    if status < 0:
        told = f"signal: {signal.strsignal(-status) or -status}".lower()
    else:
        told = f"exit status {status}"
    say.always(f"Error running handler: {told}")
    return CHILD_FAILED if call.is_on("child-exit-code") else OK


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

    def __init__(self, session: LockSession, api: Api) -> None:
        self._session = session
        self._api = api
        self._over = threading.Event()
        self._lost: threading.Event | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _KeptAlive:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._over.set()

    def tells(self, lost: threading.Event) -> None:
        self._lost = lost

    def _run(self) -> None:
        while not self._over.wait(TTL_S / 2):
            try:
                is_alive = self._session.renew(self._api)
            except CommandFailed:
                continue  # it is tried again, and lives for twice its TTL
            if not is_alive:
                if self._lost is not None:
                    self._lost.set()
                return


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
    "ADSUM_FENCING_TOKEN. When the lock is lost it gets SIGTERM, and SIGKILL 5 s later.",
)
