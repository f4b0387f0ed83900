"""Patroni with PostgreSQL: a primary and a replica that hold their lock in whoever speaks Consul's API.

PostgreSQL refuses to run as root, so all of it runs as Debian's user `postgres`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.agents import until
from tests.system.clusters import loopbacks

PACKAGES = ("patroni[consul]==4.1.5", "psycopg[binary]==3.3.9")
SCOPE = "adsum-test"
TTL_S = 20  # Patroni halves it for its session, and Consul takes none below 10 s
START_S_MAX, CALL_S = 90.0, 5.0
USER = "postgres"
ROLES = ("superuser", "replication", "rewind")


@dataclass(slots=True)
class Postgres:
    """One member: Patroni, and the PostgreSQL that it runs."""

    name: str
    rest_port: int
    database_port: int
    folder: Path
    process: subprocess.Popen[bytes]

    def role(self) -> str:
        """Empty while it runs nothing, or cannot be asked."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.rest_port}/patroni", timeout=CALL_S
            ) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            body = error.read()
        except OSError:
            return ""
        found = json.loads(body)
        return str(found["role"]) if found.get("state") == "running" else ""

    def switch_over_to(self, other: Postgres) -> None:
        wanted = json.dumps({"leader": self.name, "candidate": other.name}).encode()
        address = f"http://127.0.0.1:{self.rest_port}/switchover"
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(address, wanted, headers), timeout=60) as answer:
            assert answer.status == 200, answer.read()

    def kill(self) -> None:
        """Patroni and PostgreSQL at once, as when a host is lost."""
        pid_file = self.folder / "data" / "postmaster.pid"
        postmaster = int(pid_file.read_text().splitlines()[0])
        os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(postmaster, signal.SIGKILL)
        self.process.wait()

    def log(self) -> str:
        return (self.folder / "patroni.log").read_text(errors="replace")


@dataclass(slots=True)
class Patroni:
    members: list[Postgres]

    def primary(self, besides: Postgres | None = None) -> Postgres | None:
        """The only one, while there is a replica or nobody else is left."""
        found = [each for each in self.members if each.process.poll() is None and each.role() == "primary"]
        assert len(found) < 2, "two members believe to be the primary"
        return found[0] if found and found[0] is not besides else None

    def wait_for_primary(self, besides: Postgres | None = None) -> Postgres:
        found = until(lambda: self.primary(besides), within_s=START_S_MAX)
        assert found is not None, "\n".join(each.log()[-4_000:] for each in self.members)
        return found

    def wait_for_replica(self) -> Postgres:
        found = until(
            lambda: next((each for each in self.members if each.role() == "replica"), None),
            within_s=START_S_MAX,
        )
        assert found is not None, "\n".join(each.log()[-4_000:] for each in self.members)
        return found


@contextlib.contextmanager
def patroni(http_port: int, binaries: Path, packages: Path) -> Iterator[Patroni]:
    """Two members that ask the agent at this port. The packages are copied, for PostgreSQL's user may not see
    where they are."""
    folder = Path(tempfile.mkdtemp(prefix="adsum-patroni-"))
    packages = Path(shutil.copytree(packages, folder / "packages"))
    shutil.chown(folder, USER)
    ports = [(place.ports.http, place.ports.dns) for place in loopbacks(2)]
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        members = [
            stack.enter_context(_member(f"pg{number}", folder, http_port, binaries, packages, *ports[number]))
            for number in range(2)
        ]
        yield Patroni(members)


@contextlib.contextmanager
def _member(
    name: str,
    folder: Path,
    http_port: int,
    binaries: Path,
    packages: Path,
    rest_port: int,
    database_port: int,
) -> Iterator[Postgres]:
    own = folder / name
    own.mkdir()
    settings = own / "patroni.json"
    settings.write_text(json.dumps(_settings(name, own, http_port, binaries, rest_port, database_port)))
    for path in (own, settings):
        shutil.chown(path, USER)
    user = pwd.getpwnam(USER)
    with (own / "patroni.log").open("wb") as log:
        process = subprocess.Popen(
            [interpreter(), "-m", "patroni", str(settings)],
            cwd=own,
            env={
                "PYTHONPATH": str(packages),
                "PATH": os.environ["PATH"],
                "HOME": str(own),
                "LC_ALL": "C.UTF-8",
            },
            stdout=log,
            stderr=log,
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
            start_new_session=True,
        )
    member = Postgres(name, rest_port, database_port, own, process)
    try:
        yield member
    finally:
        if process.poll() is None:
            process.terminate()  # Patroni ends its PostgreSQL
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        with contextlib.suppress(ProcessLookupError, OSError, ValueError, IndexError):
            member.kill()


def _settings(
    name: str, folder: Path, http_port: int, binaries: Path, rest_port: int, database_port: int
) -> dict[str, object]:
    users = {role: {"username": role, "password": role} for role in ROLES}
    return {
        "scope": SCOPE,
        "name": name,
        "restapi": {"listen": f"127.0.0.1:{rest_port}", "connect_address": f"127.0.0.1:{rest_port}"},
        "consul": {"host": f"127.0.0.1:{http_port}", "register_service": False},
        "bootstrap": {
            "dcs": {"ttl": TTL_S, "loop_wait": 3, "retry_timeout": 3, "maximum_lag_on_failover": 1 << 20},
            "initdb": [{"encoding": "UTF8"}, "no-sync"],
            "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
        },
        "postgresql": {
            "listen": f"127.0.0.1:{database_port}",
            "connect_address": f"127.0.0.1:{database_port}",
            "data_dir": str(folder / "data"),
            "bin_dir": str(binaries),
            "pgpass": str(folder / "pgpass"),
            "authentication": users,
            "parameters": {"unix_socket_directories": str(folder), "fsync": "off"},
        },
        "watchdog": {"mode": "off"},
    }


def postgres_binaries() -> Path:
    """Debian keeps them apart by version, and none is on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found or os.geteuid() != 0:
        pytest.skip("PostgreSQL's server is not installed, or this is not root and cannot run as its user")
    return found[-1].parent


def interpreter() -> str:
    """One that PostgreSQL's user may run: a developer's own often lies in a closed home."""
    user, version = pwd.getpwnam(USER), f"{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/python{version}"):
        command = [candidate, "-c", "import sys; sys.exit()"]
        with contextlib.suppress(OSError):
            if (
                subprocess.run(
                    command, user=user.pw_uid, group=user.pw_gid, extra_groups=[], check=False
                ).returncode
                == 0
            ):
                return candidate
    pytest.skip(f"{USER} may run no Python {version} here: apt-get install python{version}")
