"""Why what an agent answers about others may not be as things are, and what an operator does about it.

The words are those of `X-Adsum-Stale` and of the metric; the sentences are for who reads a table.
"""

from __future__ import annotations

SENTENCES = {
    "isolated": (
        "it reaches less than half of the others, and goes on showing what it knew: look at its host's "
        "network first"
    ),
    "silence": (
        "more than a third of the members went silent at once, so they are shown as they were: suspect the "
        "network before the hosts"
    ),
    "saved copy": (
        "it has started and compared with nobody yet, and shows what it knew before: if that stays so, its "
        "log says whom it asks in vain"
    ),
    "joining": (
        "it has started and compared with nobody yet, so others are missing: if that stays so, its log says "
        "whom it asks in vain"
    ),
    "paused": (
        "it stood still, and has compared with nobody since: ask again in a second; if that stays so, see "
        "whether UDP and TCP pass between its port 8301 and those of others"
    ),
}
REASONS = tuple(SENTENCES)
