"""All that the composite asks of the world."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from adsum.catalog.effects import RunCheck, StopCheck
from adsum.effects import AnswerMember, AskMember, LogLine, Notify, Persist, Reply, Save

if TYPE_CHECKING:  # loaded with gossip, which starts when DNS answers already
    from adsum.gossip import effects as gossip_effects

OwnEffect = Persist | Save | Reply | RunCheck | StopCheck | Notify | LogLine | AskMember | AnswerMember
Effect: TypeAlias = "OwnEffect | gossip_effects.Effect"
