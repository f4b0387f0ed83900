"""Whole clusters on the shipped log: failed syncs, power losses, and a disk that forgot what it had
promised.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

import pytest

from adsum.now import MILLISECOND
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step
from adsum.raft.errors import RaftRefused
from adsum.raft.types import Configuration, MemberId
from adsum.storage.files import SECTOR_BYTES
from adsum.storage.segment_files import segment_name, segment_sequences
from adsum.testing import raft_swarm
from adsum.testing.checkers import Violation, check_witness
from adsum.testing.linearizability import HistoryVerdict, verdict
from adsum.testing.raft_clients import Clients
from adsum.testing.raft_cluster import RaftCluster, raft_cluster, seconds
from adsum.testing.raft_disk import PIECE_BYTES, SEGMENT_BYTES
from adsum.testing.raft_machine import ClientCall
from adsum.testing.raft_server import SimulatedServer
from tests.raft import mutants

SEEDS = range(12)
NO_ROOM = "the disk of this server has no room for more log; free some space there"


class Story:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = raft_cluster(seed)
        self.voters = list(self.cluster.servers)
        self.clients = Clients(self.cluster, Random(seed + 1), count=3)
        self.cluster.run_for(seconds(2))

    def compact(self) -> None:
        for server in self.cluster.up():
            if self.random.random() < 0.7:
                self.cluster.compact(server, self.random.choice((0, 5)))

    def rot(self, me: MemberId) -> None:
        """Anywhere that is written, as often as it takes to hit more than padding; never on a quorum."""
        assert self.cluster.atlas.may_harm(me)
        disk = self.cluster.store(me).disk
        names = [name for name in disk.names() if name.endswith((".segment", ".snapshot"))]
        for _ in range(self.random.randint(1, 8)):
            name = self.random.choice(names)
            disk.rot(name, self.random.choice(list(disk.used_bits(name))))

    def leader(self) -> SimulatedServer:
        assert self.cluster.run_until(lambda: bool(self.cluster.leaders()), within_ns=seconds(20))
        return self.cluster.leaders()[0]

    def become(self, change: ConfigurationChange, is_so: list[MemberId]) -> None:
        """Asked again until the voters are these, as an operator would."""
        for _ in range(100):
            configuration = self.leader().raft.replica.configuration
            if is_settled(configuration, is_so):
                return
            self.ask(self.leader(), change)
            self.cluster.run_for(200 * MILLISECOND)
        raise AssertionError(f"the voters never became {is_so}")

    def ask(self, server: SimulatedServer, change: ConfigurationChange) -> None:
        def propose() -> None:
            try:
                server.raft.propose_conf(change)
            except RaftRefused as refused:
                self.cluster.told("refused", refused)

        self.cluster.act(server, propose)

    def write(self, key: str, value: str) -> None:
        leader = self.leader()
        data = ClientCall("set", key, value).encoded()
        self.cluster.ask(leader, data, lambda _outcome: None)
        assert self.cluster.run_until(lambda: leader.machine.get(key) == value, within_ns=seconds(5))

    def ends_well(self) -> None:
        """Everybody who is up has everything, and the clients' answers fit."""
        self.clients.is_done = True
        self.cluster.run_for(seconds(4))
        leader = self.leader()
        self.cluster.act(leader, lambda: leader.raft.propose(ClientCall("set", "end", "here").encoded()))

        def has_settled() -> bool:
            members = leader.raft.replica.configuration.members()
            up = [server for server in self.cluster.up() if server.me in members]
            return all(server.machine.get("end") == "here" for server in up)

        assert self.cluster.run_until(has_settled, within_ns=seconds(20))
        happened = check_witness(self.clients.history, self.cluster.invariants.log)
        assert verdict(happened) is not HistoryVerdict.IMPOSSIBLE
        assert any(operation.answer is not None for operation in self.clients.history)


def is_settled(configuration: Configuration, voters: list[MemberId]) -> bool:
    return not configuration.is_joint and list(configuration.voters) == sorted(voters)


@pytest.mark.parametrize("seed", SEEDS)
def test_b6_b22_a_voter_whose_disk_rotted_comes_back_as_learner_and_nothing_acknowledged_is_lost(
    seed: int,
) -> None:
    story = Story(seed)
    cluster, random = story.cluster, story.random
    story.compact()
    cluster.run_for(seconds(1))
    victim = random.choice(story.voters)
    cluster.crash(victim)
    story.rot(victim)
    cluster.run_for(seconds(1))
    cluster.boot(victim)
    others = [me for me in story.voters if me != victim]
    if victim in cluster.lost:
        stranger = next(me for me in cluster.servers if me.node == victim.node and me != victim)
        story.become(
            ConfigurationChange((Step(ChangeVerb.LEAVE, victim), Step(ChangeVerb.LEARN, stranger))), others
        )
        story.become(ConfigurationChange((Step(ChangeVerb.VOTE, stranger),)), [*others, stranger])
        cluster.crash(random.choice(others))  # from now on a quorum needs the one who forgot
    story.ends_well()


def test_rot_is_found_in_most_of_these_stories() -> None:
    """So that the test above has something to say."""
    found = 0
    for seed in SEEDS:
        story = Story(seed)
        victim = story.random.choice(story.voters)
        story.cluster.crash(victim)
        story.rot(victim)
        story.cluster.boot(victim)
        found += victim in story.cluster.lost
    assert found >= len(SEEDS) / 2


@pytest.mark.parametrize("seed", SEEDS)
def test_b21_b24_servers_whose_syncs_fail_stop_and_come_back_with_what_they_acknowledged(seed: int) -> None:
    story = Story(seed)
    cluster, random = story.cluster, story.random
    for _ in range(6):
        victim = random.choice(story.voters)
        cluster.store(victim).disk.faults.failing_syncs = True
        cluster.run_for(seconds(random.uniform(0.1, 1.5)))
        if random.random() < 0.3:
            for me in story.voters:
                cluster.crash(me)  # the power goes, too: what only the page cache knew is gone
        cluster.store(victim).disk.faults.failing_syncs = False
        for me in story.voters:
            cluster.boot(me)
    assert not cluster.lost
    story.ends_well()


@pytest.mark.parametrize("has_power", [True, False], ids=["killed", "without power"])
def test_b5_a_snapshot_cut_off_at_every_piece_goes_on_where_it_was(has_power: bool) -> None:
    """Whoever receives it ends after each piece in turn, and begins again."""
    story = Story(7)
    cluster = story.cluster
    leader = story.leader()
    victim = next(me for me in story.voters if me != leader.me)
    cluster.crash(victim)
    for number in range(12):
        story.write(f"key {number}", "x" * 60)
    for server in cluster.up():
        cluster.compact(server, 0)
    story.clients.is_done = True
    cluster.boot(victim)
    came = 0
    for _ in range(40):
        cluster.run_until(partial(has_more_than, cluster, victim, came), within_ns=seconds(3))
        came = max(came, cluster.store(victim).received_bytes)
        if has_power:
            cluster.kill(victim)
        else:
            cluster.crash(victim)
        cluster.boot(victim)
    assert came > 10 * PIECE_BYTES
    story.ends_well()
    assert cluster.servers[victim].machine.get("key 11") == "x" * 60


def has_more_than(cluster: RaftCluster, me: MemberId, size: int) -> bool:
    return cluster.store(me).received_bytes > size


def header_goes_astray(story: Story) -> MemberId:
    """The first write of a follower's next segment hits the batch that it stored last, and its sync fails."""
    cluster = story.cluster
    story.clients.is_done = True
    leader = story.leader()
    victim = next(me for me in story.voters if me != leader.me)
    assert cluster.atlas.may_harm(victim)
    disk = cluster.store(victim).disk
    for number in range(12):
        story.write(f"key {number}", "x" * 3_000)  # seven sectors, three times in a segment
        cluster.run_for(seconds(1))
        in_use = segment_name(segment_sequences(disk)[-1])
        last = max(disk.used_bits(in_use)) // 8 // SECTOR_BYTES
        if number and SEGMENT_BYTES // SECTOR_BYTES - last < 7:
            disk.faults.misdirected_to = (in_use, (last - 3) * SECTOR_BYTES)
            disk.faults.failing_syncs = True
            break
    story.write("key", "x" * 3_000)
    cluster.run_for(seconds(2))
    return victim


def test_b22_a_voter_whose_next_segment_began_over_the_end_of_its_log_comes_back_as_a_stranger() -> None:
    story = Story(5)
    victim = header_goes_astray(story)
    assert list(story.cluster.lost) == [victim]
    story.ends_well()


def test_without_the_word_of_that_header_it_forgets_what_it_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutants.headers_that_went_astray_prove_nothing(monkeypatch)
    with pytest.raises(Violation, match="which was on its disk"):
        header_goes_astray(Story(5))


def test_on_full_disks_writes_are_refused_reads_go_on_and_all_is_well_when_there_is_room() -> None:
    story = Story(3)
    cluster = story.cluster
    story.write("k", "before")
    story.clients.is_done = True
    cluster.run_for(seconds(4))
    for me in story.voters:
        cluster.store(me).disk.faults.capacity_bytes = 0
    for _ in range(400):  # the spare segment puts it off, but not for ever
        if is_refused(story):
            break
        cluster.run_for(20 * MILLISECOND)
    cluster.run_for(seconds(5))
    leader = story.leader()
    answers: list[str] = []
    cluster.ask(leader, None, lambda _index: answers.append(leader.machine.get("k")))
    cluster.run_for(seconds(1))
    assert answers == ["y" * 200]
    assert is_refused(story)
    for me in story.voters:
        cluster.store(me).disk.faults.capacity_bytes = None
    cluster.run_for(seconds(3))
    story.ends_well()


def is_refused(story: Story) -> bool:
    """For want of room; whoever leads."""
    answers: list[object] = []
    data = ClientCall("set", "k", "y" * 200).encoded()
    story.cluster.ask(story.leader(), data, answers.append)
    return [str(answer) for answer in answers] == [NO_ROOM]


def test_b17_b18_b21_swarms_stand_on_the_log_that_ships_and_its_disks_do_fail() -> None:
    happened = Counter[str]()
    for seed in range(1001, 1081, 2):
        outcome = raft_swarm.run(seed)
        assert outcome.failure == "", seed
        happened.update(outcome.happened)
    for what in ("rot", "bad sector", "misdirect", "failed", "no room", "power lost", "power lost at start"):
        assert happened[what], what
    for what in ("corrupt", "replace", "brought"):
        assert happened[what], what
