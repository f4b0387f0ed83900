"""All that the composite asks of the world."""

from __future__ import annotations

from adsum.catalog.effects import RunCheck, StopCheck
from adsum.effects import AnswerMember, AskMember, LogLine, Notify, Persist, Reply, Save
from adsum.gossip import effects as gossip_effects

OwnEffect = Persist | Save | Reply | RunCheck | StopCheck | Notify | LogLine | AskMember | AnswerMember
Effect = OwnEffect | gossip_effects.Effect
