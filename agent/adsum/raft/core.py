"""One server's part in consensus: Raft as a machine that is fed and asked, without I/O and without a clock.

    tick(now)  step(message)  propose(data)  propose_conf(change)  propose_level(level)
    read_index(context)  transfer(to)  campaign()
    stored(ticket)  restored(index)  applied(index)  snapshot_point()  compacted(snapshot)  store_failed()
    report_unreachable(id)  report_snapshot(id)
    ready() -> Batch | None

Everything it wants done comes out of `ready()`, whose duties are listed in `batch`; right after it the core
may be fed again, while the batch is still on its way to the disk. The same inputs and the same seed give
the same batches.

After Ongaro's thesis, with what practice added: pre-votes, a leader that steps down when its quorum is
silent and voters that defend a leader they hear (thesis 6.2, 9.6), joint changes that count from when they
are applied (4.3), reads by heartbeat rounds (6.4), leadership transfer (3.10). Where we differ from the
paper: a commit counts an entry here only once it is on this disk, the leader's own included, and every rule
that could be broken only by our own mistake is an assertion that stays on: a server that stops is better
than one that lies.

This module holds what all roles share: terms, elections, and turning from one role into another.
"""

from __future__ import annotations

from random import Random

from adsum.dedup import DedupKey
from adsum.now import Now
from adsum.raft.ballot import Ballot, answer, consents, request_votes, vote_for_oneself
from adsum.raft.batch import Batch, Soft
from adsum.raft.changer import ConfigurationChange, decode_configuration
from adsum.raft.errors import NotLeader, TermMoved
from adsum.raft.follower import Follower
from adsum.raft.leader import Leader
from adsum.raft.messages import (
    Append,
    AppendRejected,
    AppendReply,
    FromLeader,
    Heartbeat,
    HeartbeatReply,
    Message,
    MessageStamp,
    SnapshotOffer,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from adsum.raft.quorum import VoteOutcome
from adsum.raft.replica import Counts, Replica
from adsum.raft.settings import RaftSettings
from adsum.raft.status import RaftStatus, status_of
from adsum.raft.tickets import Tickets
from adsum.raft.types import (
    Configuration,
    Entry,
    EntryKind,
    JudgedHash,
    MemberId,
    Position,
    Restored,
    Role,
    SnapshotMeta,
    StateHash,
    Term,
    Ticket,
    Turn,
    TurnCause,
)


class RaftCore:
    def __init__(
        self,
        *,
        me: MemberId,
        stamp: MessageStamp,
        settings: RaftSettings,
        restored: Restored,
        random: Random,
        now: Now,
    ) -> None:
        self.replica = Replica(me, stamp, settings, restored, now)  # to look at; the roles write it
        self.turn = Turn(TurnCause.STARTED)  # the last one: for people, and nothing is decided by it
        self._settings = settings
        self._random = random
        self._follower = Follower(self.replica)
        self._leader: Leader | None = None
        self._ballot: Ballot | None = None
        self._ticks = 0  # since the leader was heard, or the role began
        self._patience_ticks = self._drawn_patience()
        self._hard_state_given = restored.hard_state
        self._soft_given: Soft | None = None
        self._tickets = Tickets(me, settings.election_ticks)

    # What it is asked.

    @property
    def ticks_since_leader(self) -> int:
        """Heard by a follower; the others count from when their role began."""
        return self._ticks

    def propose(self, data: bytes, term: Term | None = None, dedup: DedupKey | None = None) -> Position:
        """With `term` only if we lead exactly that one: for what was concluded from its state."""
        return self._leading(term).propose(data, dedup)

    def propose_conf(self, change: ConfigurationChange, *, term: Term | None = None) -> Position:
        return self._leading(term).propose_change(change)

    def propose_level(self, level: int) -> Position:
        return self._leading().propose_level(level)

    def read_index(self, context: int) -> None:
        """Answered in some later batch's `reads`, or never if leadership is lost."""
        self._leading().read(context)

    @property
    def is_leader(self) -> bool:
        return self._leader is not None

    @property
    def is_asking(self) -> bool:
        """Whether we lead, about reads, and no quorum has answered yet."""
        return self._leader is not None and self._leader.reads.is_under_way

    def ask_everybody(self) -> None:
        """About the reads of which a few were asked, who let us wait."""
        if self._leader is not None:
            self._leader.ask_everybody()

    def transfer(self, target: MemberId) -> None:
        self._leading().transfer(target)

    def campaign(self) -> None:
        """Stand for election now."""
        if self._leader is None and self._may_campaign():
            self._become_pre_candidate()

    def status(self) -> RaftStatus:
        return status_of(self.replica, self._leader)

    @property
    def owes_commit_news(self) -> bool:
        return self._leader is not None and self._leader.owes_commit_news

    @property
    def has_more_to_apply(self) -> bool:
        """Committed and durable here, and not handed out for want of a window."""
        log = self.replica.log
        is_held = log.is_restoring or self.replica.has_stopped_applying
        return log.handed_out < min(log.commit, log.stable) and not is_held

    @property
    def counts(self) -> Counts:
        return self.replica.counts

    # What it is told.

    def tick(self, now: Now) -> None:
        assert now.monotonic_ns >= self.replica.now.monotonic_ns, "monotonic time does not go back"
        self.replica.now = now
        self._ticks += 1
        self._tickets.tick()
        if self._leader is None:
            if self._ticks >= self._patience_ticks:
                self.campaign()
        elif self._tickets.is_disk_lost:
            self.replica.counts.store_losses += 1
            self._give_way(TurnCause.DISK)
        elif not self._leader.tick():
            self.replica.counts.quorum_losses += 1
            self._become_follower(self.replica.term, None, Turn(TurnCause.QUORUM_SILENT))

    def stood_still(self, duration_ns: int) -> None:
        """This process did nothing for so long, and cluster time stands still over it: nobody had a chance to
        renew what would come to its end."""
        if self._leader is not None:
            self._leader.stood_still(duration_ns)

    def step(self, message: Message) -> None:
        replica = self.replica
        if message.stamp != replica.stamp:
            replica.counts.foreign += 1
        elif message.target != replica.me or message.source == replica.me:
            replica.counts.misaddressed += 1
        elif message.term < replica.term:
            self._answer_stale(message)
        elif message.term == replica.term or self._enters_term_of(message):
            self._dispatch(message)

    def stored(self, ticket: Ticket) -> None:
        """All that batches up to this one asked to store is durable."""
        if not self._tickets.stored(ticket):
            return
        self.replica.log.stored(ticket)
        for message in self._tickets.own_messages():
            if message.term == self.replica.term:
                self._dispatch(message)
        if self._leader is not None:
            self._leader.acknowledge_own()

    def disk_progressed(self) -> None:
        """It is not silent, it has much to do."""
        self._tickets.progressed()

    def restored(self, index: int) -> bool:
        """The state machine stands on the installed snapshot of this index. False if another one is waited
        for meanwhile: then it changes nothing."""
        return self.replica.log.restored(index)

    def applied(self, index: int) -> None:
        """The state machine stands on this index. Late word of what a snapshot has overtaken is ignored."""
        log = self.replica.log
        if index <= log.applied or log.is_restoring:
            return
        entries = log.entries(log.applied + 1, index)
        log.applied_to(index)
        changes = [entry for entry in entries if entry.kind is EntryKind.CONFIGURATION]
        if changes:  # an earlier one is history before it could count
            self._configure(decode_configuration(changes[-1].data))

    def compacted(self, snapshot: SnapshotMeta, first_kept: int) -> None:
        """The driver has a durable snapshot file, and dropped what lies before `first_kept`."""
        self.replica.log.compact(snapshot, first_kept)

    @property
    def awaited_index(self) -> int | None:
        """Of the oldest snapshot on its way to a member or being installed there: what follows is next."""
        return self._leader.awaited_index if self._leader is not None else None

    def snapshot_point(self) -> SnapshotMeta | None:
        """What a copy of the state machine made now would stand for; None if there is one already."""
        replica, log = self.replica, self.replica.log
        if log.is_restoring or log.applied == log.snapshot.index:
            return None
        return log.snapshot_point(replica.configuration, replica.stamp.epoch)

    # The hashes of the state machine, by which members find out whether they hold the same.

    def tell_hash(self, state_hash: StateHash) -> None:
        """Of the state machine here: the leader hears it."""
        self.replica.state_hash = state_hash

    @property
    def hashes_told(self) -> dict[MemberId, StateHash]:
        """To this leader, by each of the others last."""
        progress = self._leader.progress if self._leader is not None else {}
        return {member: each.state_hash for member, each in progress.items() if each.state_hash.index}

    def judge(self, judged: JudgedHash) -> None:
        """As the leader: everybody hears it."""
        self.replica.judged = judged

    def stop_applying(self) -> None:
        """For good: what stands here is not what the others have. It goes on storing, and leads nobody."""
        self.replica.has_stopped_applying = True
        if self._leader is not None:
            self._give_way(TurnCause.STATE_DIFFERS)

    def report_unreachable(self, member: MemberId) -> None:
        if self._leader is not None:
            self._leader.unreachable(member)

    def report_snapshot(self, member: MemberId, *, is_ok: bool) -> None:
        if self._leader is not None:
            self._leader.snapshot_ended(member, is_ok=is_ok)

    def store_failed(self) -> None:
        """Nothing will be stored any more: this server promises nothing new, and leads nobody."""
        self._tickets.fail()
        if self._leader is not None:
            self.replica.counts.store_losses += 1
            self._give_way(TurnCause.DISK)

    # What it wants done.

    def ready(self, *, with_commit_news: bool = True) -> Batch | None:
        """Without news a leader's followers learn of a commit only with the next entries or heartbeat: worth
        a moment's wait where many entries come one after the other, for it saves half of all messages."""
        replica, log = self.replica, self.replica.log
        if self._leader is not None:
            self._leader.flush(with_commit_news=with_commit_news)
        committed = self._next_committed()
        if not (committed or self._has_news):
            return None
        hard_state = replica.hard_state
        is_hard_state_new = hard_state != self._hard_state_given
        soft = self._soft()
        ticket = self._tickets.next()
        install, truncate_from, entries = log.take_unstored(ticket)
        before = self._hard_state_given
        must_sync = bool(entries) or truncate_from is not None or install is not None
        must_sync |= (hard_state.term, hard_state.vote) != (before.term, before.vote)
        batch = Batch(
            ticket=ticket,
            hard_state=hard_state if is_hard_state_new else None,
            truncate_from=truncate_from,
            entries=entries,
            install_snapshot=install,
            must_sync=must_sync,
            send_now=replica.outgoing_now,
            send_after_store=self._tickets.kept_until_stored(
                replica.outgoing_after_store, must_sync=must_sync
            ),
            committed=committed,
            reads=replica.confirmed_reads,
            soft=soft if soft != self._soft_given else None,
        )
        replica.outgoing_now, replica.outgoing_after_store, replica.confirmed_reads = [], [], []
        self._hard_state_given, self._soft_given = hard_state, soft
        return batch

    @property
    def wants_ready(self) -> bool:
        """Something may come of `ready()`, news of a commit apart."""
        is_asked = self._leader is not None and self._leader.wants_flush
        return is_asked or self.has_more_to_apply or self._has_news

    @property
    def _has_news(self) -> bool:
        replica, log, hard = self.replica, self.replica.log, self._hard_state_given
        return bool(
            replica.outgoing_now
            or replica.outgoing_after_store
            or replica.confirmed_reads
            or log.commit != hard.commit
            or log.has_unstored()
            or (replica.term, replica.vote) != (hard.term, hard.vote)
            or self._soft() != self._soft_given
        )

    def _soft(self) -> Soft:
        replica, missing = self.replica, (self.replica.level_missing, self.replica.refuses_appends)
        return Soft(replica.role, replica.leader, replica.term, *missing)

    def _next_committed(self) -> list[Entry]:
        """As far as the window of what is being applied allows, and this program's level."""
        log, settings = self.replica.log, self._settings
        if log.handed_out >= min(log.commit, log.stable) or log.is_restoring:
            return []
        if self.replica.has_stopped_applying:
            return []
        applying_bytes = log.bytes_between(log.applied, log.handed_out)
        if applying_bytes and applying_bytes + settings.apply_bytes_max > settings.applying_bytes_max:
            return []
        committed = log.next_committed(settings.apply_bytes_max)
        if committed[-1].apply_level > settings.apply_level_max:
            known = [entry for entry in committed if entry.apply_level <= settings.apply_level_max]
            self.replica.level_missing = committed[len(known)].apply_level
            committed = known
        if committed:
            log.hand_out(committed[-1].index)
        return committed

    # Messages.

    def _enters_term_of(self, message: Message) -> bool:
        """A later term than ours: begin it, unless the message only asks about it, or the leader is well."""
        match message:
            case VoteRequest() if not message.is_transfer and self._hears_leader:
                self.replica.counts.defended += 1
                return False
            case VoteRequest(is_prevote=True) | VoteReply(is_prevote=True, is_granted=True):
                return True
        leader, cause = None, TurnCause.LATER_TERM
        if isinstance(message, FromLeader):
            leader, cause = message.source, TurnCause.HEARD
        elif isinstance(message, VoteRequest) and message.is_transfer:
            cause = TurnCause.HANDED_OVER
        self._become_follower(message.term, leader, Turn(cause, (message.source,)))
        return True

    @property
    def _hears_leader(self) -> bool:
        return self.replica.leader is not None and (
            self._leader is not None or self._ticks < self._settings.election_ticks
        )

    def _answer_stale(self, message: Message) -> None:
        """A leader or a candidate of the past is told the term, or it could be stuck there: its own requests
        are ignored while ours is defended, and we would never hear it. An answer from the past may say what
        is committed: that stays so, and we may have no other way to hear it."""
        replica = self.replica
        replica.counts.stale += 1
        if isinstance(message, FromLeader):
            rejected = AppendRejected(replica.stamp, replica.me, message.source, replica.term, 0, 0, Term(0))
            replica.send_after_store(rejected)
        elif isinstance(message, VoteRequest) and message.is_prevote:
            answer(replica, message, is_granted=False)
        elif isinstance(message, VoteReply):
            self._learn_commit(message)

    def _dispatch(self, message: Message) -> None:
        match message:
            case Append() | Heartbeat() | SnapshotOffer():
                if self._follows(message):
                    self._take_from_leader(message)
            case AppendReply() | AppendRejected() | HeartbeatReply() if self._leader is not None:
                self._leader.take(message)
            case VoteRequest():
                self._take_vote_request(message)
            case VoteReply():
                self._take_vote(message)
            case TimeoutNow() if message.source == self.replica.leader and self._may_campaign():
                self._become_candidate(is_transfer=True)
            case _:
                self.replica.counts.stale += 1

    def _follows(self, message: FromLeader) -> bool:
        replica = self.replica
        if replica.leader not in (None, message.source):
            replica.counts.contradictions += 1
            return False
        if replica.role is not Role.FOLLOWER or replica.leader is None:
            self._become_follower(message.term, message.source, Turn(TurnCause.HEARD, (message.source,)))
        self._ticks = 0
        return True

    def _take_from_leader(self, message: FromLeader) -> None:
        match message:
            case Append():
                self._follower.take_append(message)
            case Heartbeat():
                self._follower.take_heartbeat(message)
            case SnapshotOffer():
                self._follower.take_offer(message)

    def _take_vote_request(self, request: VoteRequest) -> None:
        is_granted = consents(self.replica, request)
        if is_granted and not request.is_prevote:
            self.replica.enter_term(request.term, request.source)
            self._ticks = 0
        answer(self.replica, request, is_granted=is_granted)

    def _take_vote(self, reply: VoteReply) -> None:
        self._learn_commit(reply)
        ballot = self._ballot
        is_asked = ballot is not None and ballot.is_prevote is reply.is_prevote
        is_of_term = reply.term == self.replica.term + (reply.is_prevote and reply.is_granted)
        if ballot is None or not is_asked or not is_of_term:
            self.replica.counts.stale += 1
            return
        match ballot.count(self.replica, reply.source, is_granted=reply.is_granted):
            case VoteOutcome.WON:
                self._win(ballot)
            case VoteOutcome.LOST:
                self._become_follower(self.replica.term, None, Turn(TurnCause.NOT_ELECTED))

    def _learn_commit(self, reply: VoteReply) -> None:
        log = self.replica.log
        is_no_news = log.term_at(reply.commit_index) != reply.commit_term or reply.commit_index <= log.commit
        if is_no_news or self._leader is not None:  # a leader commits by its own rule
            return
        log.commit_to(reply.commit_index)
        if self._ballot is not None and log.configuration_waits():
            # The next election goes by other rules.
            self._become_follower(self.replica.term, None, Turn(TurnCause.NOT_ELECTED))

    # Roles.

    def _may_campaign(self) -> bool:
        """Not as long as a change of the voters is committed and not applied: by the old set we might elect
        ourselves beside a leader of the new one. And a leader must be able to store and to apply its log."""
        replica, log = self.replica, self.replica.log
        return (
            replica.configuration.is_voter(replica.me)
            and replica.can_lead
            and not log.configuration_waits()
            and not self._tickets.is_disk_lost
        )

    def _become_follower(self, term: Term, leader: MemberId | None, turn: Turn) -> None:
        replica = self.replica
        self.turn = turn
        if term > replica.term:
            replica.enter_term(term, None)
        replica.role, replica.leader = Role.FOLLOWER, leader
        self._leader = self._ballot = None
        self._wait_anew()

    def _become_pre_candidate(self) -> None:
        replica = self.replica
        assert replica.role is not Role.LEADER, "a leader does not stand for election"
        if replica.leader is not None:
            self.turn = Turn(TurnCause.LEADER_SILENT, (replica.leader,))
        replica.role, replica.leader = Role.PRE_CANDIDATE, None
        self._wait_anew()
        ballot = self._ballot = Ballot(is_prevote=True)
        if (
            ballot.count(replica, replica.me, is_granted=True) is VoteOutcome.WON
        ):  # it promises nothing to the disk
            self._win(ballot)
        else:
            request_votes(replica, Term(replica.term + 1), is_prevote=True, is_transfer=False)

    def _become_candidate(self, *, is_transfer: bool) -> None:
        replica = self.replica
        assert replica.role is not Role.LEADER, "a leader does not stand for election"
        replica.enter_term(Term(replica.term + 1), replica.me)
        replica.role, replica.leader = Role.CANDIDATE, None
        replica.counts.elections += 1
        self._wait_anew()
        self._ballot = Ballot(is_prevote=False)
        vote_for_oneself(replica)
        request_votes(replica, replica.term, is_prevote=False, is_transfer=is_transfer)

    def _win(self, ballot: Ballot) -> None:
        if ballot.is_prevote:
            self._become_candidate(is_transfer=False)
        else:
            self._become_leader(ballot)

    def _become_leader(self, ballot: Ballot) -> None:
        replica = self.replica
        assert replica.role is Role.CANDIDATE, "only a candidate is elected"
        self.turn = Turn(TurnCause.ELECTED, tuple(sorted(ballot.granted())))
        replica.role, replica.leader = Role.LEADER, replica.me
        self._ballot = None
        self._wait_anew()
        self._leader = Leader(replica)

    def _give_way(self, cause: TurnCause) -> None:
        assert self._leader is not None
        self._leader.give_way()
        self._become_follower(self.replica.term, None, Turn(cause))

    def _configure(self, configuration: Configuration) -> None:
        replica = self.replica
        replica.configuration = configuration
        if self._leader is None:
            return
        self._leader.configuration_changed()
        if not configuration.is_voter(replica.me):
            self._give_way(TurnCause.NO_VOTER)

    def _leading(self, term: Term | None = None) -> Leader:
        if self._leader is None:
            raise NotLeader(f"the leader is {self.replica.leader}")
        if term is not None and term != self.replica.term:
            raise TermMoved(f"term {self.replica.term} is led here, not {term}")
        return self._leader

    def _wait_anew(self) -> None:
        self._ticks = 0
        self._patience_ticks = self._drawn_patience()

    def _drawn_patience(self) -> int:
        return self._settings.election_ticks + self._random.randrange(self._settings.election_ticks)
