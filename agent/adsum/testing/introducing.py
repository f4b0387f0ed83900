"""A core that knows its peers from the start, as after a join that was answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adsum.address import Address
from adsum.gossip.commands import Command, Join, Report, SyncAnswered
from adsum.gossip.effects import CloseSync, JoinEnded, OpenSync, SyncMessage, SyncPart

ASKED = Address("192.0.2.1", 8301)  # nobody's: the exchange stays between the core and this function


def introduce(
    command: Callable[[Command], Sequence[Any]], report: Callable[[Report], Sequence[Any]], *parts: SyncPart
) -> list[Any]:
    """What it caused besides the exchange itself."""
    asked = command(Join((ASKED,)))
    (opened,) = [effect for effect in asked if isinstance(effect, OpenSync)]
    answered = report(SyncAnswered(opened.ticket, SyncMessage(0, parts)))
    return [each for each in (*asked, *answered) if not isinstance(each, OpenSync | CloseSync | JoinEnded)]
