"""What an agent makes first, and answers DNS with; the rest is loaded meanwhile and made of it.

Making it binds every socket, so a port that is taken stops the start before anything runs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import trio

from adsum.agent.local_catalog import LocalCatalog
from adsum.agent.saved_files import COPY
from adsum.config.build import Loaded
from adsum.dns.answers import Answers
from adsum.dns_server import server as dns_server
from adsum.dns_server.counters import DnsCounters
from adsum.dns_server.recursor import Recursion
from adsum.dns_server.resolver import Resolver
from adsum.logs.faults import Faults
from adsum.logs.stream import LogStream
from adsum.logs.system_errors import told
from adsum.observe.loop_lag import GcPauses, LoopLag
from adsum.process import translate
from adsum.process.data_folder import DataFolder
from adsum.process.file_limit import divide_files
from adsum.process.identity import NODE_ID_PATH, node_id, own_node
from adsum.process.sockets import CannotStart, bind, listeners_of
from adsum.process.system_clock import system_now
from adsum.storage import registrations
from adsum.storage.owed import Owed, OwingDisk
from adsum.storage.reading import read_if_readable
from adsum.storage.writer import WriterCounters

log = logging.getLogger("agent")

ID_NOT_KEPT = (
    "the new node id %s cannot be kept in data_dir yet: until it is, each start of this agent is another "
    "node to the others; make data_dir writable, no restart is needed"
)
# A server's first pass looks at its socket, the loop's next sees what waits there, the one after answers.
PASSES_TO_ANSWER = 3


class FirstPhase:
    def __init__(
        self, loaded: Loaded, owed: Owed, folder: DataFolder | None, random: Random, stream: LogStream
    ) -> None:
        self.config = loaded.config  # as it was at the start
        self.tls = loaded.tls
        self.owed = owed
        self.folder = folder
        self.random = random
        self.stream = stream
        self.node_id = node_id(self.config, OwingDisk(owed))
        if NODE_ID_PATH in owed.files:
            log.warning(ID_NOT_KEPT, self.node_id)
        settings = translate.core_settings(self.config, own_node(self.config, self.node_id))
        self.local = LocalCatalog(system_now(), settings, random)
        self.answers = Answers(self.local.view, translate.dns_settings(self.config), random)
        self.faults = Faults()
        self.dns, self.storage = DnsCounters(), WriterCounters()
        self.lag, self.gc_pauses = LoopLag(), GcPauses()
        self.files = divide_files(listeners_of(self.config), is_server=self.config.is_server)
        self.sockets = bind(self.config)

    def restore(self) -> bool:
        """Whether there is a saved copy of what others publish as well: then no question about them is
        answered before it is read."""
        with reading():
            saved = registrations.load(self.owed.disk)
            has_copy = read_if_readable(self.owed.disk, COPY) is not None
        self.local.restore(system_now(), saved)
        return has_copy

    async def answer_dns(self, nursery: trio.Nursery) -> None:
        limits = translate.dns_limits(self.files.shares)
        recursion = Recursion(limits, self.dns, lambda: self.random.getrandbits(16))
        resolver = Resolver(self.answers, recursion, self.dns, self.faults)
        sockets = dns_server.DnsSockets(self.sockets.dns_udp, self.sockets.dns_tcp)
        await nursery.start(dns_server.serve, sockets, resolver, limits, time.monotonic_ns)
        for _ in range(PASSES_TO_ANSWER):  # who asked while we were starting has waited long enough
            await trio.lowlevel.checkpoint()

    def certificate_end_s(self) -> int:
        return 0 if self.tls is None else self.tls.certificate_end_s


@contextmanager
def reading() -> Iterator[None]:
    """What is damaged is set aside; what may not be read is still good, and for the operator to mend."""
    try:
        yield
    except OSError as problem:
        raise CannotStart(f"{problem.filename} cannot be read: {told(problem)}") from None
