"""Two that claim one place, an address or a name, and which of them has it.

One address and port is one process. Of two ids there, the greater generation is the one that runs: its host
lost its data folder, or the address went from one host to another.

A name belongs to whoever holds it while it is present and has not just said that it restarts. Who comes with
another address is refused, and the holder is asked at once whether it is still there: only if it is, that is
a conflict for an operator to mend. Two that took a name within half a minute, on two sides of a cluster, are
settled the same way everywhere: the older one keeps it. Whoever is present has a place before whoever is
gone, whatever their generations."""

from __future__ import annotations

from adsum.address import Address
from adsum.gossip.claims import Alive, Profile
from adsum.gossip.effects import ConflictSeen
from adsum.gossip.members import Member
from adsum.gossip.probe import Prober
from adsum.gossip.shared_state import SharedState
from adsum.gossip.source import Source
from adsum.gossip.wire import PacketFlag, PacketKind
from adsum.newest import keep_newest
from adsum.now import SECOND, Now

NAME_SETTLED_NS = 30 * SECOND
CONFLICT_AGAIN_NS = 30 * SECOND
CONFLICTS_REMEMBERED_MAX = 256
NAMESAKES_MAX = 16


class Rivals:
    def __init__(self, shared: SharedState, prober: Prober) -> None:
        self.shared = shared
        self.prober = prober
        self._conflicts_ns: dict[tuple[bytes, bytes], int] = {}
        self._namesakes: dict[bytes, Profile] = {}  # by short id: others that are told of under my name
        self._refused_for: tuple[bytes, ...] = ()

    def giving_way(self, now: Now, told: Alive, source: Source, *, is_gone: bool) -> list[Member] | None:
        """Who has its address or its name until now; None when one of them keeps it.

        `is_gone`: there is a verdict that it is dead or left."""
        shared, profile = self.shared, told.profile
        if profile.name.casefold() == shared.me.profile.name.casefold():
            keep_newest(self._namesakes, told.subject, profile, NAMESAKES_MAX)
            # What others tell may be an old life of this host. They ask it before they refuse me.
            is_there = source.sender == told.subject or told.subject in self._refused_for
            if is_there and not is_gone:
                self.conflict(now, shared.me.profile, profile, source.address)
            return None
        beaten: list[Member] = []
        for holder in (shared.roster.by_address.get(profile.address), shared.roster.by_name_of(profile.name)):
            if holder is None or holder.profile.node_id == profile.node_id or holder in beaten:
                continue
            if not self._beats(now, told, holder, source, is_gone=is_gone):
                return None
            beaten.append(holder)
        return beaten

    def _beats(self, now: Now, told: Alive, holder: Member, source: Source, *, is_gone: bool) -> bool:
        order = holder.standing.generation, holder.profile.node_id
        is_later = (told.standing.generation, told.profile.node_id) > order
        if is_gone or not holder.standing.is_present:
            return is_later if is_gone and not holder.standing.is_present else not is_gone
        # It said that it comes back, and here it is.
        is_away = holder.is_away(now.monotonic_ns) and (source.is_member or source.has_answered)
        if holder.profile.address == told.profile.address or is_away:
            if not is_later:
                self.shared.correct(holder.short, holder.alive.encoded)
            return is_later
        is_new_here = now.monotonic_ns - holder.known_since_ns <= NAME_SETTLED_NS
        if source.is_member and is_new_here and not is_later:
            return True
        self.prober.challenge(now, holder, told)
        return False

    def refused_for(self, short: bytes) -> Profile | None:
        """A member does not let me in, for another has my name or id; who that is, if it was told of."""
        self._refused_for = (*self._refused_for[1 - NAMESAKES_MAX :], short)
        member = self.shared.roster.by_short.get(short)
        return member.profile if member is not None else self._namesakes.get(short)

    def conflict(self, now: Now, holder: Profile, newcomer: Profile, told_from: Address | None) -> None:
        shared = self.shared
        shared.tally.conflicts += 1
        pair = (holder.node_id, newcomer.node_id)
        last_ns = self._conflicts_ns.get(pair)
        if last_ns is not None and now.monotonic_ns - last_ns < CONFLICT_AGAIN_NS:
            return
        keep_newest(self._conflicts_ns, pair, now.monotonic_ns, CONFLICTS_REMEMBERED_MAX)
        shared.effects.append(ConflictSeen(holder, newcomer))
        is_told_by_it = told_from is None or told_from == newcomer.address
        if is_told_by_it and newcomer.address != holder.address:
            to, about = newcomer.address, holder.short
            shared.send_bare(now, to, PacketKind.REFUSAL, about=about, flags=PacketFlag.CONFLICT)


def place(profile: Profile) -> tuple[str, Address]:
    return profile.name.casefold(), profile.address
