"""The command that runs while a lock is held, with all that it starts.

It is a process group of its own: a shell that is told to end leaves its children behind, and what works under
the lock would go on without it. Only who sits at a terminal gets it in the terminal's group, where Ctrl-C and
Ctrl-Z reach it as they reach every command.
"""

from __future__ import annotations

import enum
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from adsum.cli.command import CommandFailed

GRACE_S = 5.0  # between being told to end and being killed
KILLED_S = 1.0  # for the system to take away what was killed
LOOK_S = 0.05  # whether it has ended


class CommandRemains(enum.Enum):
    """Of the command and what it started."""

    NOTHING = enum.auto()
    OURS = enum.auto()
    FOREIGN = enum.auto()  # alone: what runs as somebody else, and may not be told to end


class LockedCommand:
    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], grace_s: float, *, reads_stdin: bool
    ) -> None:
        self._grace_s = grace_s
        self._is_group = not _is_at_terminal()
        try:
            self._child = subprocess.Popen(
                words,
                env=environment,
                stdin=None if reads_stdin else subprocess.DEVNULL,
                process_group=0 if self._is_group else None,
            )
        except OSError as problem:
            raise CommandFailed(f"Error starting handler: {words[0]}: {problem.strerror}") from None

    @property
    def status(self) -> int:
        """Once it has ended."""
        return self._child.returncode

    def has_ended(self) -> bool:
        return self._child.poll() is not None

    def end(self, say: Callable[[str], None]) -> list[str]:
        """Returns when nothing is left of it, with what there is to tell: to speak meanwhile could take until
        somebody reads. Only what cannot be ended is spoken of, and waited for."""
        told = [f"Terminating child pid {self._child.pid}"]
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        if self._is_gone_within(self._grace_s):
            return [*told, "Child terminated"]
        told.append(f"Child did not exit after grace period of {self._grace_s:g}s")
        self._signal(signal.SIGKILL)
        self._is_gone_within(KILLED_S)
        if self._left() is CommandRemains.FOREIGN:
            say("What the command started runs as somebody else; the lock is kept until it ends")
            while self._left() is CommandRemains.FOREIGN:
                time.sleep(LOOK_S)
        return told

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self._is_group:
                os.killpg(self._child.pid, number)
            else:
                self._child.send_signal(number)

    def _is_gone_within(self, limit_s: float) -> bool:
        until_s = time.monotonic() + limit_s
        while self._left() is not CommandRemains.NOTHING:
            if time.monotonic() >= until_s:
                return False
            time.sleep(LOOK_S)
        return True

    def _left(self) -> CommandRemains:
        has_ended = self.has_ended()
        if has_ended and not self._is_group:
            return CommandRemains.NOTHING
        try:
            if not self._is_group:
                os.kill(self._child.pid, 0)
                return CommandRemains.OURS
            if has_ended:  # the first process of a container inherits the others
                with suppress(ChildProcessError):
                    while os.waitpid(-self._child.pid, os.WNOHANG)[0]:
                        pass
            os.killpg(self._child.pid, 0)
        except ProcessLookupError:
            return CommandRemains.NOTHING
        except PermissionError:
            return CommandRemains.FOREIGN
        return CommandRemains.OURS


def _is_at_terminal() -> bool:
    """In the foreground of one, wherever the standard input comes from."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
