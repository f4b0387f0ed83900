"""How many files this process may open, and who gets them.

A connection is a file, and so is everything else: a check's socket, a registration on its way to the disk. A
client that opens connections until there are no files left must find the end of its own share, not of ours:
a registration that cannot be written would stop the agent.
"""

from __future__ import annotations

import logging
import resource

log = logging.getLogger("agent")

FILES_WANTED = 65_536  # a connection is a file; Consul's own units ask for as many
# What everything but HTTP may have open at once: 1,024 runs of network checks, 64 of scripts with four pipe
# ends each, 512 DNS connections and 512 recursions, 256 refused clients. The rest is log, disk, listeners.
FILES_RESERVED = 2_688


def raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        log.info("raised the limit of open files from %d to %d", soft, wanted)


def http_connections_max() -> int:
    """The share of HTTP clients; where files are few, half of them."""
    files, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(files - FILES_RESERVED, files // 2)
