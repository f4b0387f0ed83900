"""Finds a program that Debian packages, so that a test or bench can use it.

    tools/debian_tool.py unbound-checkconf      prints its path, or says on stderr which package has it

A machine that says it may be changed (ADSUM_INSTALL=1, or CI=true, and we are root) gets the package
installed; anywhere else nothing is touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PACKAGES = {
    "curl": "curl",
    "dig": "bind9-dnsutils",
    "dnsmasq": "dnsmasq-base",  # the program without its service
    "dnsperf": "dnsperf",
    "ip": "iproute2",
    "pg_ctlcluster": "postgresql",  # its server, beside this program
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "resperf": "dnsperf",
    "systemd-analyze": "systemd",
    "unbound": "unbound",
    "unbound-checkconf": "unbound",
    "wrk": "wrk",
}
# Daemons live here; a developer's PATH often does not.
SEARCH_PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"


def main(program: str) -> int:
    path = shutil.which(program, path=SEARCH_PATH)
    if path is None and may_install():
        install(PACKAGES[program])
        path = shutil.which(program, path=SEARCH_PATH)
    if path is None:
        print(f"{program} is missing: apt-get install {PACKAGES[program]}", file=sys.stderr)
        return 1
    print(path)
    return 0


def may_install() -> bool:
    asked = os.environ.get("ADSUM_INSTALL") == "1" or os.environ.get("CI") == "true"
    return asked and os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(package: str) -> None:
    """A failure needs no handling: the program is then still missing, and apt's words are on stderr."""
    command = ["install", "--yes", "--no-install-recommends", package]
    if apt_get(command) != 0:
        apt_get(["update"])
        apt_get(command)


def apt_get(arguments: list[str]) -> int:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    impatiently = ["-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10"]
    command = ["apt-get", "-qq", *impatiently, *arguments]
    return subprocess.run(command, stdout=subprocess.DEVNULL, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
