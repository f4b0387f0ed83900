"""A host that boots asks DNS before anything else, so an agent answers with the least it can load.

Each module named here takes as long to load as many answers, and none of them is needed for one. What the
first phase loads (`process.first_phase`) imports such a module for annotations only, under TYPE_CHECKING;
what needs it belongs to the complete agent, which `Assembly` loads in a thread, after DNS.
"""

from __future__ import annotations

import subprocess
import sys

from tests.system.agents import free_ports

LATER = (
    "adsum.process.http_rim",
    "adsum.http.server",
    "adsum.gossip",
    "adsum.health_checks",
    "adsum.net",
    "adsum.observe.metrics",
    "adsum.raft",
    "adsum.servers",
    "adsum.store",
    "argparse",
    "cryptography",
    "dnslib",
    "h11",
    "httptools",
    "msgspec",
    "prometheus_client",
    "sqlite3",
    "tomllib",
)

# When the first of them is asked for, the agent must answer a question asked from that very place: while it
# is being imported, or when the loop itself imports, nobody answers.
PROGRAM = """
import os, socket, sys

LATER, DNS_PORT, FLAGS = {later!r}, {port}, {flags!r}
QUESTION = bytes.fromhex("1234010000010000 00000000 026e31 046e6f6465 06636f6e73756c 00 0001 0001")

def is_answered():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.connect(("127.0.0.1", DNS_PORT))
        asker.settimeout(2)
        try:
            asker.send(QUESTION)
            return int.from_bytes(asker.recv(512)[6:8], "big") == 1
        except OSError:
            return False

def importers(frame):
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("adsum."):
            yield frame.f_globals["__name__"]
        frame = frame.f_back

class Watcher:
    def find_spec(self, name, path=None, target=None):
        if any(name == each or name.startswith(each + ".") for each in LATER):
            chain = " <- ".join([name, *dict.fromkeys(importers(sys._getframe()))])
            print("DNS answered first" if is_answered() else "loaded before DNS: " + chain, flush=True)
            os._exit(0)

sys.meta_path.insert(0, Watcher())
from adsum.cli.main import main

main(FLAGS)
"""


def test_dns_answers_before_the_rest_of_the_agent_is_loaded() -> None:
    ports = free_ports()
    flags = ["agent", "-dev", "-node=n1", f"-dns-port={ports.dns}", f"-http-port={ports.http}"]
    flags += [f"-serf-lan-port={ports.serf_lan}", f"-serf-wan-port={ports.serf_wan}"]
    program = PROGRAM.format(later=LATER, port=ports.dns, flags=[*flags, f"-server-port={ports.server}"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines()[-1:] == ["DNS answered first"], done.stdout + done.stderr
