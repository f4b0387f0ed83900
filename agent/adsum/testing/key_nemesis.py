"""What goes wrong where servers keep keys and agents ask for them: what goes wrong with any consensus, an
operator who takes servers out and in, clocks, and the agents themselves.

Of a disk whatever is fair: unsynced writes are lost, syncs fail, there is no room, the power goes in the
middle. None of it may cost an acknowledged write, for a majority has it synced. Disks that rot are left to
the swarm of consensus: which log can be believed has nothing to do with what is in it.
"""

from __future__ import annotations

from random import Random

from adsum.now import SECOND
from adsum.raft.changer import LEAVE_JOINT, ChangeVerb, ConfigurationChange, Step
from adsum.raft.types import Configuration, MemberId
from adsum.testing.key_agents import KeyAgent
from adsum.testing.key_world import KeyWorld
from adsum.testing.raft_cluster import RESTART_NS
from adsum.testing.raft_nemesis import FOR_GOOD_NS, MEND_NS, Nemesis

DRIFT_PPM_MAX = 100_000
HOUR_MS = 3_600_000
WALL_JUMPS_MS = (-24 * HOUR_MS, -HOUR_MS, -1_000, 1_000, HOUR_MS, 24 * HOUR_MS)
OUT_NS_MIN = SECOND  # long enough to be agreed on


class KeyNemesis(Nemesis):
    def __init__(self, world: KeyWorld, random: Random) -> None:
        super().__init__(world.raft, random)
        self._world = world
        self._without_vote: dict[MemberId, ChangeVerb] = {}  # whom the operator means to be without

    def end(self) -> None:
        super().end()
        self._without_vote = {}
        for host in self._world.hosts:
            self._world.drift(host, 0)
            host.wall_ahead_ms = 0
        for agent in self._world.agents:
            agent.rumour_share = 0.0  # or else whoever is not woken would ask again because of one
            self._world.resume(agent.host.index)
            self._start(agent)
        self._mend_on()

    def has_mended(self) -> bool:
        """All servers vote."""
        leaders = self._cluster.leaders()
        return bool(leaders) and leaders[0].raft.replica.configuration == Configuration(
            voters=tuple(self._world.members)
        )

    # Links: an agent is on some side.

    def split(self) -> int | None:
        return self._with_sides(super().split())

    def split_leader(self) -> int | None:
        return self._with_sides(super().split_leader())

    def _with_sides(self, duration_ns: int | None) -> int | None:
        for agent in self._world.agents if duration_ns is not None else ():
            beside = self._random.choice(self._living()).host.index
            self._world.network.take_side(agent.host.index, beside)
        return duration_ns

    def agent_cut_off(self) -> int | None:
        """From some servers, in both directions or one."""
        agent, network = self._agent().host.index, self._world.network
        servers = self._random.sample(self._living(), self._random.randint(1, len(self._living())))
        ways = self._random.choice(((True, True), (True, False), (False, True)))
        links = [(agent, each.host.index) for each in servers if ways[0]]
        links += [(each.host.index, agent) for each in servers if ways[1]]
        for link in links:
            network.cut(*link)

        def mend() -> None:
            for link in links:
                network.lose_one_way(*link, 0.0)

        return self._for_a_while(mend)

    # Processes.

    def kill(self) -> int | None:
        """The process of a server; what it wrote stays."""
        server = self._any()
        if not server.is_up:
            return None
        self._cluster.kill(server.me)
        return RESTART_NS

    def agent_killed(self) -> int | None:
        agent = self._agent()
        if not agent.is_up:
            return None
        self._cluster.told("agent killed", agent.host.index)
        agent.kill()
        return self._for_a_while(lambda: self._start(agent))

    def agent_paused(self) -> int | None:
        host = self._agent().host
        if not host.is_up:
            return None
        self._cluster.told("agent paused", host.index)
        self._world.pause(host.index)
        return self._for_a_while(lambda: self._world.resume(host.index))

    def _start(self, agent: KeyAgent) -> None:
        if not agent.is_up:
            self._world.start(agent.host.index)

    # Clocks, of servers and agents.

    def clock_drift(self) -> int | None:
        ppm = self._random.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX)
        self._world.drift(self._random.choice(self._world.hosts), ppm)
        return FOR_GOOD_NS

    def wall_jump(self) -> int | None:
        self._random.choice(self._world.hosts).wall_ahead_ms += self._random.choice(WALL_JUMPS_MS)
        return FOR_GOOD_NS

    # Membership.

    def removed(self) -> int | None:
        """A server, for a while; another is taken in again first."""
        return self._take_vote(self._random.choice((ChangeVerb.LEAVE, ChangeVerb.REMOVE)))

    def learner(self) -> int | None:
        return self._take_vote(ChangeVerb.LEARN)

    def _take_vote(self, verb: ChangeVerb) -> int | None:
        if self._without_vote:
            return None
        me = self._leader_mostly().me
        self._without_vote[me] = verb
        self._cluster.told("operator", verb.value, me.node)
        duration_ns = OUT_NS_MIN + self._while()

        def give_back() -> None:
            self._without_vote.pop(me, None)

        self._cluster.at(duration_ns, give_back)
        return duration_ns

    def _mend(self) -> None:
        """The next step to the membership that the operator means."""
        for server in self._cluster.leaders()[:1]:
            configuration = server.raft.replica.configuration
            if configuration.is_joint:
                self._propose("operator", server, LEAVE_JOINT)
                return
            for me in self._world.members:
                step = next_step(configuration, me, self._without_vote.get(me, ChangeVerb.VOTE))
                if step is not None:
                    self._propose("operator", server, ConfigurationChange((step,)))
                    return

    def _mend_on(self) -> None:
        self._mend()
        self._cluster.at(MEND_NS, self._mend_on)

    def _agent(self) -> KeyAgent:
        return self._random.choice(self._world.agents)


def next_step(configuration: Configuration, me: MemberId, meant: ChangeVerb) -> Step | None:
    if me not in configuration.members():
        is_out = meant in (ChangeVerb.LEAVE, ChangeVerb.REMOVE)
        return None if is_out else Step(ChangeVerb.LEARN, me)
    standing = ChangeVerb.LEARN if configuration.is_learner(me) else ChangeVerb.VOTE
    return None if standing is meant else Step(meant, me)


FAULTS = (
    *("loss", "repeat", "delay", "slow_network", "split", "split_leader", "one_way", "agent_cut_off"),
    *("kill", "crash", "crash_leader", "power_loss", "agent_killed"),
    *("pause", "suspend", "agent_paused", "clock_drift", "wall_jump"),
    *("stall_disk", "slow_disk", "failing_sync", "full_disk", "flicker", "cut_power"),
    *("removed", "learner", "transfer", "campaign", "compact", "leave_behind"),
)
