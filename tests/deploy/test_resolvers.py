"""Each snippet is read by the resolver it is for, where that can be had."""

from __future__ import annotations

import configparser
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

DOMAINS = {"consul", "adsum"}
# What resolved.conf(5) knows; systemd-resolved itself only warns in its journal about a misspelt key.
RESOLVED_KEYS = {
    *("DNS", "FallbackDNS", "Domains", "LLMNR", "MulticastDNS", "DNSSEC", "DNSOverTLS", "Cache"),
    *("CacheFromLocalhost", "DNSStubListener", "DNSStubListenerExtra", "ReadEtcHosts"),
}


@pytest.fixture
def resolvers(root: Path) -> Path:
    return root / "deploy/resolvers"


def test_dnsmasq_takes_the_snippet(resolvers: Path, debian_tool: Callable[[str], str]) -> None:
    snippet = resolvers / "dnsmasq/adsum.conf"
    command = [debian_tool("dnsmasq"), "--test", f"--conf-file={snippet}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"^server=/(\w+)/127\.0\.0\.1#8600$", snippet.read_text(), re.MULTILINE)) == DOMAINS


def test_unbound_takes_the_snippet(resolvers: Path, debian_tool: Callable[[str], str]) -> None:
    snippet = resolvers / "unbound/adsum.conf"
    done = subprocess.run([debian_tool("unbound-checkconf"), snippet], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    stubs = re.findall(r'name: "(\w+)\."\n    stub-addr: 127\.0\.0\.1@8600', snippet.read_text())
    assert set(stubs) == DOMAINS


def test_systemd_resolved_snippet_has_only_keys_that_exist(resolvers: Path) -> None:
    drop_in = configparser.ConfigParser()
    drop_in.optionxform = str  # type: ignore[assignment,method-assign]  # the documented way to keep the case of keys
    drop_in.read(resolvers / "systemd-resolved/adsum.conf")
    assert drop_in.sections() == ["Resolve"]
    settings = drop_in["Resolve"]
    assert set(settings) <= RESOLVED_KEYS
    assert settings["DNS"] == "127.0.0.1:8600"
    assert set(settings["Domains"].split()) == {f"~{domain}" for domain in DOMAINS}


def test_coredns_block_forwards_both_domains(resolvers: Path) -> None:
    """Debian has no CoreDNS to ask, so its shape is checked: one server block, balanced, known plugins."""
    lines = [line.split("#")[0].strip() for line in (resolvers / "coredns/Corefile").read_text().splitlines()]
    block = [line for line in lines if line]
    assert block[0] == "consul:53 adsum:53 {"
    assert block[-1] == "}"
    assert {line.split()[0] for line in block[1:-1]} == {"errors", "cache", "forward"}
    assert "forward . 127.0.0.1:8600" in block


def test_readme_names_every_snippet(resolvers: Path) -> None:
    readme = (resolvers / "README.md").read_text()
    snippets = [path for path in resolvers.rglob("*") if path.is_file() and path.name != "README.md"]
    assert [str(path) for path in snippets if f"({path.relative_to(resolvers)})" not in readme] == []
