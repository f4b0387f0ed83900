"""Who is present, as the catalog shows it: derived from membership, written by nobody.

A member that is alive or suspected is a node whose serfHealth passes. One that failed stays listed, critical,
so that its instances leave DNS and `passing` at once on every agent, with no write to any log. One that left
is gone, with everything on it.

Self-preservation: while we are cut off, or too many fell silent at once, silence means our own trouble rather
than theirs. Then silent verdicts hide nothing, and those of the last minutes are taken back until it ends;
only a refusal or a departure still hides.
"""

from __future__ import annotations

from adsum.agent import tags
from adsum.catalog.definitions import CheckStatus as Verdict
from adsum.catalog.model import SERF_HEALTH, Node
from adsum.catalog.records import NodeRecord
from adsum.catalog.view import NO_AGENT, View
from adsum.gossip.claims import SHORT, Profile
from adsum.gossip.effects import MemberChanged
from adsum.gossip.evidence import ChangeCause
from adsum.gossip.order import MemberStatus
from adsum.now import Now

# Consul's agents carry it in their node meta, and so does what is known of one before its own record comes.
SEGMENT_META = {"consul-network-segment": ""}


class Presence:
    def __init__(self, view: View, own_id: str, datacenter: str) -> None:
        self.holds_last_known = False
        self._view = view
        self._own_id = own_id
        self._datacenter = datacenter
        self._names: dict[str, str] = {}  # of the nodes shown here, by their id
        self._profiles: dict[bytes, Profile] = {}  # of the same, by the short id
        self._described: dict[bytes, NodeRecord] = {}  # what owners say of their nodes, once it is known
        self._appeared: list[bytes] = []
        self._freed: list[str] = []
        self._silent_ns: dict[str, int] = {}  # when a node, by name, was called dead by silence
        self._was_hidden: set[str] = set()  # nodes, by name, that were dead in the last run and still are

    def changed(self, now: Now, change: MemberChanged) -> None:
        owner = uuid_text(change.member.node_id)
        if owner == self._own_id:
            return
        status = change.after.status if change.after is not None else MemberStatus.LEFT
        if status is MemberStatus.LEFT:
            self._hide(now, owner)
            return
        self._show(now, owner, change.member)
        name = change.member.name
        if status is not MemberStatus.FAILED:
            self._was_hidden.discard(name)
        is_kept = self._is_silent(now, name, change) and self.holds_last_known
        self._view.set_presence(now, name, is_present=status is not MemberStatus.FAILED or is_kept)

    def _is_silent(self, now: Now, name: str, change: MemberChanged) -> bool:
        """Whether it was called dead for a reason that may be our own trouble, and when."""
        self._silent_ns.pop(name, None)
        is_failed = change.after is not None and change.after.status is MemberStatus.FAILED
        if not is_failed or change.evidence.cause is ChangeCause.REFUSED or name in self._was_hidden:
            return False
        self._silent_ns[name] = now.monotonic_ns
        return True

    def take_appeared(self) -> list[bytes]:
        """Nodes that were not shown before, or not under this name: nothing is on them yet."""
        appeared, self._appeared = self._appeared, []
        return appeared

    def take_freed(self) -> list[str]:
        """Names that a node without an agent may have again."""
        freed, self._freed = self._freed, []
        return freed

    def shown_as(self, short: bytes) -> str | None:
        profile = self._profiles.get(short)
        return profile.name if profile is not None else None

    def shows(self, name: str) -> bool:
        """Whether what is on it is answered with, as far as that is up to who is present."""
        host = self._view.node(name)
        row = host.checks.get(SERF_HEALTH) if host is not None else None
        return row is not None and row.value.status is Verdict.PASSING

    def describe(self, now: Now, short: bytes, record: NodeRecord) -> None:
        """By its owner's own record."""
        self._described[short] = record
        profile = self._profiles.get(short)
        if profile is not None:
            owner = uuid_text(profile.node_id)
            self._view.put_node(now, owner, self._node(owner, profile))

    def show_saved(self, now: Now, profile: Profile, *, is_shown: bool) -> None:
        """As it was when this agent last looked, in its life before."""
        self._show(now, uuid_text(profile.node_id), profile)
        if not is_shown:
            self._was_hidden.add(profile.name)
        self._view.set_presence(now, profile.name, is_present=is_shown)

    def hide_saved(self, now: Now, profile: Profile) -> None:
        self._hide(now, uuid_text(profile.node_id))

    def hold(self, now: Now, *, holds: bool, since_ns: int) -> None:
        """Whether silent verdicts, from those of `since_ns` on, mean anything."""
        if holds == self.holds_last_known:
            return
        self.holds_last_known = holds
        for name, silent_ns in self._silent_ns.items():
            if not holds or silent_ns >= since_ns:
                self._view.set_presence(now, name, is_present=holds)

    def _show(self, now: Now, owner: str, profile: Profile) -> None:
        shown_as = self._names.get(owner)
        if shown_as is not None and shown_as != profile.name:
            self._hide(now, owner)  # it was renamed
        holder = self._view.node(profile.name)
        if holder is not None and holder.owner == NO_AGENT:
            self._view.remove_node(now, profile.name)  # an agent has the better right to a name
        elif holder is not None and holder.owner != owner:
            self._hide(now, holder.owner)  # it took over the name of one that is gone
        if holder is None or holder.owner != owner:
            self._appeared.append(profile.short)
        self._names[owner] = profile.name
        self._profiles[profile.short] = profile
        self._view.put_node(now, owner, self._node(owner, profile))

    def _node(self, owner: str, profile: Profile) -> Node:
        """What membership knows of it; its own record says more when it comes."""
        address = profile.address.host
        record = self._described.get(profile.short)
        if record is None:
            family = "ipv6" if ":" in address else "ipv4"
            near = {kind: address for wide in ("lan", "wan") for kind in (wide, f"{wide}_{family}")}
            datacenter = tags.decode(profile.meta).datacenter or self._datacenter
            record = NodeRecord(datacenter, near, SEGMENT_META)
        return Node(
            node_id=owner,
            name=profile.name,
            address=address,
            datacenter=record.datacenter,
            tagged_addresses=record.tagged_addresses,
            meta=record.meta,
        )

    def _hide(self, now: Now, owner: str) -> None:
        name = self._names.pop(owner, None)
        if name is None:
            return
        short = uuid_bytes(owner)[:SHORT]
        self._profiles.pop(short, None)
        self._described.pop(short, None)
        self._silent_ns.pop(name, None)
        self._was_hidden.discard(name)
        self._view.remove_node(now, name)
        self._freed.append(name)


def uuid_text(node_id: bytes) -> str:
    digits = node_id.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def uuid_bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("-", ""))
