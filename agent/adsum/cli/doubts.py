"""What an agent says against its own answers, in a sentence; empty when it says nothing."""

from __future__ import annotations

from adsum.cli.table import Row


def doubt(answer: Row) -> str:
    """Of an answer that has `Observer` and `Stale`; Consul's have neither."""
    stale = answer.get("Stale")
    if not stale:
        return ""
    return f"{answer['Observer']} may be out of date ({stale['Reason']}): {stale['Sentence']}."
