"""Mistakes of ours that one input brought to light: the input is dropped, and the agent goes on.

Whoever handles datagrams, messages of streams, calls, effects, saved entries, what time brings or what a
watch is told guards each by itself with

    except Exception as error:
        faults.dropped("datagram", error)

so that no input from outside can end an agent. Each is counted by its kind; the log names the place in the
code, at most once a minute for each kind, for there may be thousands. A failed assertion is none of these: it
says that the agent's own state is broken, and ends the process.

Where the system gave no file or memory (`shortage`) nobody made a mistake: that is counted apart, and the log
says what to do about it.
"""

from __future__ import annotations

import logging
import traceback
from pathlib import PurePath
from typing import Literal

from adsum.logs.complaints import Complaints
from adsum.logs.system_errors import is_shortage, told

logger = logging.getLogger("agent.faults")

SHOWN_CHARACTERS_MAX = 200

Input = Literal["call", "datagram", "dns", "effect", "metric", "saved", "stream", "tick", "watch"]
INPUTS: tuple[Input, ...] = (
    "call",
    "datagram",
    "dns",
    "effect",
    "metric",
    "saved",
    "stream",
    "tick",
    "watch",
)


class Faults:
    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(INPUTS, 0)
        self.shortages: dict[str, int] = dict.fromkeys(INPUTS, 0)
        self._complaints = Complaints(logger)

    def dropped(self, kind: Input, error: Exception) -> None:
        """Raises the error again if it is a failed assertion."""
        error = _innermost(error)
        if isinstance(error, AssertionError):
            raise error
        if is_shortage(error):
            self.shortages[kind] += 1
            self._complaints.say(f"shortage: {kind}", "one input (%s) was dropped: %s", kind, told(error))
            return
        self.counts[kind] += 1
        self._complaints.say(
            kind,
            "a fault of Adsum was met, please report it: one input (%s) was dropped because of %s at %s",
            kind,
            repr(error)[:SHOWN_CHARACTERS_MAX],
            place_of(error),
            level=logging.ERROR,
        )


def place_of(error: Exception) -> str:
    """Where it was raised and through what it came, innermost first."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return " < ".join(
        f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames)
    )


def _innermost(error: Exception) -> Exception:
    """A nursery wraps what its tasks raise. Of several the first; a failed assertion before all others."""
    if not isinstance(error, ExceptionGroup):
        return error
    raised = [_innermost(each) for each in error.exceptions]
    return next((each for each in raised if isinstance(each, AssertionError)), raised[0])
