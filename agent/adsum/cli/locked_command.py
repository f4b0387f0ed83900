"""The command that runs while a lock is held, with all that it starts.

It is a process group of its own: a shell that is told to end leaves its children behind, and what works under
the lock would go on without it. Only who sits at a terminal gets it in the terminal's group, where Ctrl-C and
Ctrl-Z reach it as they reach every command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from adsum.cli.command import CommandFailed

GRACE_S = 5.0  # between being told to end and being killed
KILLED_S = 1.0  # for the system to take away what was killed; in a container it may never
LOOK_S = 0.05  # whether it has ended


class LockedCommand:
    def __init__(self, words: Sequence[str], environment: Mapping[str, str], *, reads_stdin: bool) -> None:
        stdin = None if reads_stdin else subprocess.DEVNULL
        self._is_group = not _is_at_terminal()
        try:
            self._child = subprocess.Popen(
                words, env=environment, stdin=stdin, process_group=0 if self._is_group else None
            )
        except OSError as problem:
            raise CommandFailed(f"Error starting handler: {words[0]}: {problem.strerror}") from None

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def status(self) -> int:
        """Once it has ended."""
        return self._child.returncode

    def has_ended(self) -> bool:
        return self._child.poll() is not None

    def end(self) -> list[str]:
        """Returns when it has ended, with what there is to say of it: to speak meanwhile could take until
        somebody reads."""
        told = [f"Terminating child pid {self.pid}"]
        if not self._signal(signal.SIGTERM):
            self._child.wait()
            return [*told, "It runs as somebody else, so it was waited for"]
        if self._is_gone_within(GRACE_S):
            return [*told, "Child terminated"]
        self._signal(signal.SIGKILL)
        self._is_gone_within(KILLED_S)
        self._child.wait()
        return [*told, f"Child did not exit after grace period of {GRACE_S:.0f}s"]

    def _signal(self, number: signal.Signals) -> bool:
        """False: it may not be told."""
        try:
            if not self._is_group:
                self._child.send_signal(number)
            else:
                os.killpg(self.pid, number)
        except PermissionError:
            return False
        except ProcessLookupError:
            pass
        return True

    def _is_gone_within(self, limit_s: float) -> bool:
        until_s = time.monotonic() + limit_s
        while not (self.has_ended() and self._is_group_empty()):
            if time.monotonic() >= until_s:
                return False
            time.sleep(LOOK_S)
        return True

    def _is_group_empty(self) -> bool:
        if not self._is_group:
            return True
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


def _is_at_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False
