"""Stories about consensus, told in text: commands, and below each what came of it.

    # Why the story is worth telling.
    > servers 1 2 3
    > campaign 1
    > settle
    1 is pre-candidate, term 1
    1 to 2: would you vote? term 2, log ends 1@1
    ...

`performed` runs a story and returns it with the trace as it is now; a test compares, and writes the file
anew when pytest is given `--rewrite`. Nothing happens by itself: no batch is taken, no write ends, no
message arrives unless the story says so. `settle` lets everything happen until nobody has anything to say.

    servers 1 2 3            founders, voters all; `learners 4` on the same line adds learners
    server 1 log 1 1 2 [term 3] [vote 2] [commit 4]
                             the same server with a past: entries from index 2 on with these terms
    stranger 4               a server with an empty disk
    wiped 3                  the same, in place of 3, and as its new log is called: 3b
    campaign 1 · tick 1 [20] · propose 1 x · read 1 7 · transfer 1 2 · level 1 2
    compact 1 [keep 2] · unreachable 1 2
    conf 1 learn 4, vote 4, leave 2 [simple|joint|explicit] · conf 1 (leaves the joint configuration)
    take 1 · sync 1 [upto 3] · apply 1 · step 1 2 (all three); `by-hand 1` keeps `settle` from doing so
    limit append_bytes_max 1 (before there are servers)
    deliver [1>2] · drop [1>2] · twice 1>2 · hold 1>2 · release
    cut 1 2 (messages between these and the rest are lost) · heal · crash 1 · boot 1 · store-failed 1
    settle · quietly <command> (without its trace) · show
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

from adsum.now import MILLISECOND, Now
from adsum.raft.batch import Batch
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step, Transition
from adsum.raft.errors import RaftRefused
from adsum.raft.messages import Message, MessageStamp, SnapshotOffer
from adsum.raft.settings import TICK_MS, RaftSettings
from adsum.raft.types import Configuration, Entry, EntryKind, HardState, MemberId, Restored, Term, bootstrap
from adsum.testing.raft_by_hand import MemoryStore, ServerByHand
from adsum.testing.raft_machine import ClientCall
from adsum.testing.raft_told import FIRST_LOG, told_entries, told_member, told_message, told_state, told_store

STAMP = MessageStamp("story", 0)
ROUNDS_MAX = 200  # of `settle`; a story that never ends is a finding


class Story:
    def __init__(self, settings: RaftSettings | None = None) -> None:
        self.settings = settings or RaftSettings()
        self.servers: dict[str, ServerByHand] = {}
        self.trace: list[str] = []
        self._wire: list[Message] = []
        self._held: list[Message] = []
        self._holding: list[tuple[str, str]] = []
        self._cut: list[str] = []
        self._by_hand: list[str] = []
        self._founders = Configuration()
        self._now = Now(0, 0)

    def perform(self, line: str) -> list[str]:
        """One command; what came of it."""
        self.trace = []
        verb, *words = line.split()
        if verb == "quietly":
            self.perform(" ".join(words))
            return []
        command = getattr(self, "do_" + verb.replace("-", "_"), None)
        if command is None:
            raise ValueError(f"no such command: {verb}")
        try:
            command(*words)
        except RaftRefused as refused:
            self.trace.append(f"refused: {refused}")
        return self.trace

    def do_limit(self, name: str, value: str) -> None:
        """Before there are servers."""
        limit: dict[str, Any] = {name: int(value)}
        self.settings = replace(self.settings, **limit)

    # Who takes part.

    def do_servers(self, *names: str) -> None:
        split = names.index("learners") if "learners" in names else len(names)
        self._founders = Configuration(voters=members(names[:split]), learners=members(names[split + 1 :]))
        for name in names[:split] + names[split + 1 :]:
            self._make(name, Restored(snapshot=bootstrap(self._founders)))

    def do_server(self, name: str, *words: str) -> None:
        facts = _facts(words)
        terms = [Term(int(term)) for term in facts.get("log", [])]
        entries = tuple(
            Entry(index, term, EntryKind.TERM_BEGIN, 0, 1, None, b"")
            for index, term in enumerate(terms, start=2)
        )
        (term,) = facts.get("term") or [str(max([1, *terms]))]
        (vote,) = facts.get("vote") or [""]
        (commit,) = facts.get("commit") or ["1"]
        hard_state = HardState(Term(int(term)), member(vote) if vote else None, int(commit))
        self._make(name, Restored(hard_state, bootstrap(self._founders), entries))

    def do_stranger(self, name: str) -> None:
        self._make(name, Restored())

    def do_wiped(self, name: str) -> None:
        self._make(name, Restored(), member(name + "b"))

    def _make(self, name: str, restored: Restored, me: MemberId | None = None) -> None:
        store = MemoryStore(restored)
        seed = Random(int(name))
        self.servers[name] = ServerByHand(me or member(name), STAMP, self.settings, store, seed, self._now)

    # What they are asked.

    def do_campaign(self, name: str) -> None:
        self.servers[name].raft.campaign()

    def do_tick(self, name: str, times: str = "1") -> None:
        for _ in range(int(times)):
            self._now = Now(self._now.monotonic_ns + TICK_MS * MILLISECOND, self._now.wall_ms + TICK_MS)
            self.servers[name].raft.tick(self._now)

    def do_propose(self, name: str, *words: str) -> None:
        position = self.servers[name].raft.propose(ClientCall("set", "k", " ".join(words)).encoded())
        self.trace.append(f"{name} proposes {position.index}@{position.term}")

    def do_conf(self, name: str, *words: str) -> None:
        position = self.servers[name].raft.propose_conf(_change(" ".join(words)))
        self.trace.append(f"{name} proposes {position.index}@{position.term}")

    def do_level(self, name: str, level: str) -> None:
        position = self.servers[name].raft.propose_level(int(level))
        self.trace.append(f"{name} proposes {position.index}@{position.term}")

    def do_read(self, name: str, context: str) -> None:
        self.servers[name].raft.read_index(int(context))

    def do_transfer(self, name: str, target: str) -> None:
        self.servers[name].raft.transfer(member(target))

    def do_compact(self, name: str, _keep: str = "keep", keep: str = "0") -> None:
        snapshot = self.servers[name].compact(int(keep))
        self.trace.append(
            f"{name} has a snapshot of {snapshot.index}@{snapshot.term}" if snapshot else "none"
        )

    def do_unreachable(self, name: str, target: str) -> None:
        self.servers[name].raft.report_unreachable(member(target))

    # Disk and process.

    def do_step(self, *names: str) -> None:
        for name in names:
            self.do_take(name)
            self.do_sync(name)
            self.do_apply(name)

    def do_take(self, name: str) -> None:
        batch = self.servers[name].take()
        if batch is not None:
            self._tell(name, batch)
            self._send(batch.send_now)

    def do_sync(self, name: str, _upto: str = "upto", ticket: str = "") -> None:
        self._send(self.servers[name].sync(int(ticket) if ticket else None))

    def do_apply(self, name: str) -> None:
        applied = [entry for entry, _answer in self.servers[name].apply()]
        if applied:
            self.trace.append(f"{name} applies {told_entries(applied)}")

    def do_by_hand(self, *names: str) -> None:
        self._by_hand = list(names)

    def do_crash(self, name: str) -> None:
        server = self.servers[name]
        server.is_up = False
        self._wire = [message for message in self._wire if message.source != server.me]

    def do_boot(self, name: str) -> None:
        self.servers[name].boot(self._now)

    def do_store_failed(self, name: str) -> None:
        self.servers[name].raft.store_failed()

    # The wire.

    def do_deliver(self, link: str = "") -> None:
        arriving = [message for message in self._wire if _is_on(message, link)]
        self._wire = [message for message in self._wire if not _is_on(message, link)]
        for message in arriving:
            self._deliver(message)

    def do_drop(self, link: str = "") -> None:
        self._wire = [message for message in self._wire if not _is_on(message, link)]

    def do_twice(self, link: str) -> None:
        self._wire += [message for message in self._wire if _is_on(message, link)]

    def do_hold(self, link: str) -> None:
        """From now on messages on this link wait for `release`."""
        source, target = link.split(">")
        self._holding.append((source, target))

    def do_release(self) -> None:
        self._wire += self._held
        self._held, self._holding = [], []

    def do_cut(self, *names: str) -> None:
        self._cut = list(names)

    def do_heal(self) -> None:
        self._cut = []

    def do_settle(self) -> None:
        for _ in range(ROUNDS_MAX):
            if not self._settle_once():
                return
        raise AssertionError("the story does not come to rest")

    def do_show(self) -> None:
        for name, server in self.servers.items():
            self.trace.append(f"{name}: {told_state(server.raft.status()) if server.is_up else 'down'}")

    # Inside.

    def _settle_once(self) -> bool:
        before = len(self.trace), len(self._wire)
        for name, server in self.servers.items():
            if server.is_up and name not in self._by_hand:
                self.do_step(name)
        self.do_deliver()
        return (len(self.trace), len(self._wire)) != before

    def _tell(self, name: str, batch: Batch) -> None:
        if batch.soft is not None:
            leader = f", follows {told_member(batch.soft.leader)}" if batch.soft.leader else ""
            self.trace.append(f"{name} is {batch.soft.role.value}, term {batch.soft.term}{leader}")
            if batch.soft.level_missing:
                self.trace.append(f"{name} stops applying: level {batch.soft.level_missing} is needed")
        if batch.must_store:
            self.trace.append(f"{name} stores {batch.ticket}: {told_store(batch)}")
        self.trace += [f"{name} may answer read {read.context} at {read.index}" for read in batch.reads]

    def _send(self, messages: Iterable[Message]) -> None:
        for message in messages:
            link = message.source.node, message.target.node
            is_lost = (link[0] in self._cut) != (link[1] in self._cut)
            self.trace.append(told_message(message) + (" (lost)" if is_lost else ""))
            if not is_lost:
                (self._held if link in self._holding else self._wire).append(message)

    def _deliver(self, message: Message) -> None:
        source, target = self.servers.get(message.source.node), self.servers.get(message.target.node)
        if source is None or target is None or not target.is_up:
            return
        if isinstance(message, SnapshotOffer):
            target.store.snapshots[message.snapshot] = source.store.snapshots[message.snapshot]
            source.raft.report_snapshot(target.me, is_ok=True)
        target.raft.step(message)


def performed(script: str, settings: RaftSettings | None = None) -> str:
    """The script with its traces as they are today; prose, blank lines and commands stay."""
    story = Story(settings)
    lines: list[str] = []
    for line in script.splitlines():
        if line.startswith("> "):
            lines += [line, *story.perform(line[2:])]
        elif not line or line.startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"


def member(name: str) -> MemberId:
    """`3`, or `3b` with another log than the one it began with."""
    node = name.rstrip("b")
    return MemberId(node, "b" if node != name else FIRST_LOG)


def members(names: Iterable[str]) -> tuple[MemberId, ...]:
    return tuple(sorted(member(name) for name in names))


def _change(words: str) -> ConfigurationChange:
    transitions = {
        "simple": Transition.SIMPLE,
        "joint": Transition.JOINT,
        "explicit": Transition.JOINT_EXPLICIT,
    }
    transition = Transition.AUTO
    steps = []
    for part in words.split(","):
        match part.split():
            case [verb, name, *rest]:
                steps.append(Step(ChangeVerb(verb), member(name)))
                transition = transitions[rest[0]] if rest else transition
    return ConfigurationChange(tuple(steps), transition)


def _facts(words: tuple[str, ...]) -> dict[str, list[str]]:
    """`log 1 1 2 term 3` as {"log": ["1", "1", "2"], "term": ["3"]}."""
    facts: dict[str, list[str]] = {}
    for word in words:
        if word.isalpha():
            facts[word] = []
        else:
            facts[list(facts)[-1]].append(word)
    return facts


def _is_on(message: Message, link: str) -> bool:
    return link in ("", f"{message.source.node}>{message.target.node}")
