"""Messages, batches and states of consensus as a line of text, for stories and for traces of a simulation."""

from __future__ import annotations

from collections.abc import Sequence

from adsum.raft.batch import Batch
from adsum.raft.changer import decode_configuration
from adsum.raft.messages import (
    Append,
    AppendRejected,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    SnapshotOffer,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from adsum.raft.status import RaftStatus
from adsum.raft.types import Configuration, Entry, EntryKind, MemberId

FIRST_LOG = "a"


def told_member(member: MemberId) -> str:
    """Short: whoever still has the log it began with is called by its node."""
    return member.node if member.log == FIRST_LOG else f"{member.node}{member.log}"


def told_message(message: Message) -> str:
    link = f"{told_member(message.source)} to {told_member(message.target)}"
    return f"{link}: {_said(message)}, term {message.term}"


def _said(message: Message) -> str:
    match message:
        case Append(entries=entries, prev_index=index, prev_term=term, commit=commit):
            return f"append {told_entries(entries)} after {index}@{term}, commit {commit}"
        case AppendReply(index=index):
            return f"have up to {index}"
        case AppendRejected(rejected_index=index, hint_index=hint, hint_term=term):
            return f"lack {index}, try {hint}@{term}"
        case Heartbeat(commit=commit, round=number):
            return f"heartbeat {number}, commit {commit}"
        case HeartbeatReply(round=number, can_lead=can_lead):
            return f"heard {number}" + ("" if can_lead else ", cannot lead")
        case SnapshotOffer(snapshot=snapshot):
            return f"snapshot {snapshot.index}@{snapshot.term}"
        case VoteRequest(last_index=index, last_term=term, is_prevote=is_prevote, is_transfer=is_transfer):
            how = "would you vote?" if is_prevote else "vote!" if is_transfer else "vote?"
            return f"{how} log ends {index}@{term}"
        case VoteReply(is_prevote=is_prevote, is_granted=is_granted):
            return ("would " if is_prevote else "votes ") + ("yes" if is_granted else "no")
        case TimeoutNow():
            return "lead!"
        case _:
            return type(message).__name__


def told_entries(entries: Sequence[Entry]) -> str:
    return " ".join(_told_entry(entry) for entry in entries) or "nothing"


def _told_entry(entry: Entry) -> str:
    place = f"{entry.index}@{entry.term}"
    if entry.kind is EntryKind.CONFIGURATION:
        return f"{place}[{told_configuration(decode_configuration(entry.data))}]"
    return place


def told_configuration(configuration: Configuration) -> str:
    groups = [
        ("voters", configuration.voters),
        ("outgoing", configuration.voters_outgoing),
        ("learners", configuration.learners),
        ("learners next", configuration.learners_next),
        ("removed", configuration.removed),
    ]
    parts = [f"{name} {_names(members)}" for name, members in groups if members]
    return ", ".join(parts + (["leaves by itself"] if configuration.auto_leave else []))


def told_store(batch: Batch) -> str:
    parts = []
    if batch.hard_state is not None:
        vote = f", vote {told_member(batch.hard_state.vote)}" if batch.hard_state.vote else ""
        parts.append(f"term {batch.hard_state.term}{vote}, commit {batch.hard_state.commit}")
    if batch.install_snapshot is not None:
        parts.append(f"snapshot {batch.install_snapshot.index}@{batch.install_snapshot.term}")
    if batch.truncate_from is not None:
        parts.append(f"cut from {batch.truncate_from}")
    if batch.entries:
        parts.append(told_entries(batch.entries))
    return "; ".join(parts)


def told_state(status: RaftStatus) -> str:
    hard_state = status.hard_state
    parts = [
        f"{status.role.value} in term {hard_state.term}",
        f"log {status.first_index} to {status.last_index}",
        f"stable {status.stable}, commit {hard_state.commit}, applied {status.applied}",
        told_configuration(status.configuration) or "no configuration",
    ]
    if status.transferee is not None:
        parts.append(f"hands over to {told_member(status.transferee)}")
    parts += [
        f"{told_member(each.member)} {each.mode.value} {each.match}"
        for each in status.members
        if each.member != status.leader
    ]
    return "; ".join(parts)


def _names(members: tuple[MemberId, ...]) -> str:
    return " ".join(map(told_member, members))
