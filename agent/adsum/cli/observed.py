"""What an agent saw, as people read it: in the time of this place, and with its doubts about itself."""

from __future__ import annotations

from datetime import datetime

from adsum.cli.table import Row


def local_time(rfc3339: str) -> str:
    """As this terminal's people count, to the millisecond: accusations come close together."""
    return datetime.fromisoformat(rfc3339).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def doubt(answer: Row) -> str:
    """Of an answer that has `Observer` and `Stale`, which Consul's have not; empty where there is none."""
    stale = answer.get("Stale")
    if not stale:
        return ""
    return f"{answer['Observer']} may be out of date ({stale['Reason']}): {stale['Sentence']}."
