"""How many files this process may open, and who gets them.

A connection is a file, and so is everything else: a check's socket, a question that goes on to a recursor, a
registration on its way to the disk. Whatever others can cause has a share of its own, and all shares, with
what the agent itself has open, stay below the limit. So whoever opens connections without end meets the end
of one share, and DNS, gossip, checks and the disk have theirs.

Where there are many files each share is as large as is of use (`MOST`), and HTTP has the rest. Where there
are few HTTP has half of what is free, and the others shrink alike towards what they cannot do without
(`LEAST`). With still fewer the agent does not start.
"""

from __future__ import annotations

import logging
import resource

from adsum.named import NamedTuple
from adsum.process.sockets import CannotStart

log = logging.getLogger("agent")

FILES_WANTED = 65_536  # a connection is a file; Consul's own units ask for as many
FEW_FILES = 1_024  # below it shares are so small that ordinary use may meet them
# Open for as long as the agent runs, but for what listens to clients: the three standard ones, two logs, the
# lock of the data folder, the loop and its alarm (4), gossip (2), the journal (3), the kernel's figures about
# this process (2), and the service manager.
HELD_FILES = 18
# Open for a moment: a file and its folder on the way to the disk (2), configuration, code that is loaded when
# it is needed (2), and a connection of each of HTTP, DNS and gossip that is yet to be turned away.
WORK_FILES = 8
FILES_PER_NETWORK_RUN = 2  # its socket, and that of the resolver, which may take longer than the run
FILES_PER_SCRIPT_RUN = 4  # its output, its process, and two more while it is started
HTTP_CONNECTIONS_MIN = 2
WATCH_HANDLERS_PART = 8
# On a server: the log's folder as its parts know it (5) and the segment at its end; and for a moment the next
# segment, snapshots that are written, read for another server and come from one, and the servers' addresses.
SERVER_FILES = 6 + 6


class Shares(NamedTuple):
    """As large as is of use."""

    http_refusals: int = 256
    dns_newcomers: int = 64
    dns_connections: int = 512
    recursions: int = 512
    stream_openings: int = 256
    streams: int = 1_024
    stream_pings: int = 256  # that we open, as the next two
    syncs: int = 64
    calls: int = 256
    server_lines: int = 32  # to servers, for keys
    network_runs: int = 1_024
    script_runs: int = 64

    @property
    def watch_handlers(self) -> int:
        """At once, of the share of scripts."""
        return max(1, self.script_runs // WATCH_HANDLERS_PART)

    @property
    def check_programs(self) -> int:
        """What is left of that share."""
        return max(1, self.script_runs - self.watch_handlers)

    @property
    def programs(self) -> int:
        return self.check_programs + self.watch_handlers

    @property
    def files(self) -> int:
        runs = FILES_PER_NETWORK_RUN * self.network_runs + FILES_PER_SCRIPT_RUN * self.script_runs
        return sum(self[:-2]) + runs


class ServerShares(NamedTuple):
    """Of the servers' port."""

    openings: int = 256
    streams: int = 256  # of other servers
    links: int = 64  # that we open to them
    agent_lines: int = 8_192

    @property
    def files(self) -> int:
        return sum(self)


class Division(NamedTuple):
    http_connections: int
    shares: Shares
    server: ServerShares  # a client has none


LEAST = Shares(
    http_refusals=1,
    dns_newcomers=4,
    dns_connections=2,
    recursions=2,
    stream_openings=4,
    streams=4,
    stream_pings=1,
    syncs=2,
    calls=2,
    server_lines=1,
    network_runs=1,
    script_runs=1,
)
MOST = Shares()
SERVER_LEAST = ServerShares(openings=2, streams=4, links=4, agent_lines=2)
SERVER_MOST = ServerShares()
NO_SERVER = ServerShares(0, 0, 0, 0)


def divide(files: int, listeners: int, *, is_server: bool) -> Division:
    """`listeners` are files as well: what listens to clients. Raises `CannotStart` when there are too few."""
    held = HELD_FILES + WORK_FILES + listeners + (SERVER_FILES if is_server else 0)
    needed = held + LEAST.files + HTTP_CONNECTIONS_MIN + (SERVER_LEAST.files if is_server else 0)
    if files < needed:
        raise CannotStart(
            f"this process may open {files} files, and {'a server' if is_server else 'an agent'} needs "
            f"{needed}: raise its limit, by LimitNOFILE= in its systemd unit or by ulimit -n"
        )
    free, server = files - held, NO_SERVER
    if is_server:
        wanted = min(free // 3, free - LEAST.files - HTTP_CONNECTIONS_MIN)
        server = ServerShares(*_between(SERVER_LEAST, SERVER_MOST, wanted))
        free -= server.files
    shares = Shares(*_between(LEAST, MOST, free // 2))
    return Division(free - shares.files, shares, server)


def _between(least: Shares | ServerShares, most: Shares | ServerShares, files: int) -> list[int]:
    """Each share as far from what it cannot do without as the others, so that all together have so many."""
    wanted = min(most.files, max(least.files, files))
    span, more = most.files - least.files, wanted - least.files
    return [low + (high - low) * more // span for low, high in zip(least, most, strict=True)]


def divide_files(listeners: int, *, is_server: bool) -> Division:
    """Those of this process; where they are few, it is said who gets how many."""
    files, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    division = divide(files, listeners, is_server=is_server)
    if files < FEW_FILES:
        log.warning(
            "this process may open %d files only, and has room for %d connections of HTTP, %d of DNS and %d "
            "checks at once: raise its limit, by LimitNOFILE= in its systemd unit or by ulimit -n",
            *(files, division.http_connections, division.shares.dns_connections),
            division.shares.network_runs,
        )
    return division


def raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        log.info("raised the limit of open files from %d to %d", soft, wanted)
