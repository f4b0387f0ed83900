"""What speaks against a member, in words: in short for the log, at length for its story."""

from __future__ import annotations

from collections.abc import Sequence

from adsum.journal.entry import Grounds, Somebody

LEG_WORDS = {"direct": "to a datagram", "indirect": "through helpers", "stream": "on a stream"}


def in_short(grounds: Grounds) -> str:
    who = ", ".join(map(_name_or_digits, grounds.accusers)) or "nobody"
    legs = ", ".join(grounds.legs) or "none"
    refused = ", ".join(map(_name_or_digits, grounds.refusers))
    end = f"; refused to {refused}" if refused else ""
    return f"accused by {who}; legs that failed: {legs}; phi {grounds.phi:.1f}{end}"


def at_length(grounds: Grounds) -> str:
    """Legs, refusals and phi, as far as there are any; who accuses, the sentence around it says."""
    silent = [leg for leg in grounds.legs if not (leg == "stream" and grounds.refusers)]
    tried = [LEG_WORDS[leg] for leg in silent if leg in LEG_WORDS]
    words = [f"no answer {_joined(tried, 'or')}"] if tried else []
    if "icmp" in grounds.legs:
        words.append("a datagram came back as undeliverable")
    if "host" in grounds.legs:
        words.append("nobody takes a connection")
    if grounds.refusers:
        words.append(f"connections refused to {names(grounds.refusers)}")
    if grounds.phi:
        words.append(f"phi {grounds.phi:.1f}")
    return "; ".join(words) or "no reason was given"


def names(people: Sequence[Somebody]) -> str:
    return _joined([str(each) for each in people], "and")


def _joined(words: Sequence[str], last: str) -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def _name_or_digits(who: Somebody) -> str:
    """Digits as debug lines of packets have them, without the hyphens of a uuid."""
    return who.name or who.id.replace("-", "")
