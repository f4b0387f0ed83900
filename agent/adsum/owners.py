"""Who writes the records of a catalog, by the eight bytes by which an owner is named.

An agent's are the first ones of its node id. The store of consensus is one more owner, under a name that no
node id may begin with; servers publish as it the nodes without an agent.
"""

from __future__ import annotations

STORE = b"@store\0\0"
