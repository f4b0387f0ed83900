"""Files in the data folder beside registrations: what an agent that is started again finds its cluster by.

Apart from the modules that know what is in them, for those files are looked for before these are loaded.
"""

from __future__ import annotations

GENERATION = "generation"  # of this agent's last run
PEERS = "peers"
COPY = "catalog-copy"  # of what others published
SERVERS = "servers"  # where keys are
