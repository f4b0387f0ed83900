"""All that the composite asks of the world."""

from __future__ import annotations

from adsum.catalog.effects import RunCheck, StopCheck
from adsum.effects import AnswerMember, AskMember, LeaderChanged, LogLine, Notify, Persist, Reply, Save
from adsum.gossip import effects as gossip_effects

Asked = AskMember | AnswerMember
OwnEffect = Persist | Save | Reply | RunCheck | StopCheck | Notify | LogLine | LeaderChanged | Asked
Effect = OwnEffect | gossip_effects.Effect
