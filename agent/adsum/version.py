"""Which Consul we are to our clients, and which Adsum to our operators."""

from __future__ import annotations

# Clients switch features on by it, so it names the level whose shapes we speak.
CONSUL_API_VERSION = "1.8.7"
# The package takes its version from this line; asking the installed package instead takes as long as loading
# fifty modules of ours.
ADSUM_VERSION = "0.1.0"
