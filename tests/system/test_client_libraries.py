"""Libraries with which people use keys, sessions and transactions of Consul, with one of our agents: what
their documentation shows. Each is installed once, into a folder of its own inside the environment, for two of
them have the same name to import; where it cannot be had the test says so."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.agents import Agent

SCRIPTS = Path(__file__).with_name("clients")
INSTALLED = Path(sys.prefix) / "clients"
PIP = (sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "install", "--target")
INSTALL_S_MAX = 180.0
RUN_S_MAX = 60.0

OF_PYTHON = {
    "get what is not there": [True, None],
    "put": True,
    "get": {"LockIndex": 0, "Key": "foo", "Flags": 0, "Value": "bar"},
    "the index is the key's": True,
    "put bytes": True,
    "get bytes": [0, 255],
    "put nothing": [True, None],
    "put text": [True, "ü"],
    "flags": [True, 50],
    "keys": ["foo", "foo_bytes", "foo_flags", "foo_none", "foo_é"],
    "keys of nothing": None,
    "recurse": ["bar", "\0\\xff", None, None, "ü"],
    "recurse of nothing": None,
    "separator": ["base/base/", "base/foo", "base/next/"],
    "consistency": ["bar", "bar", "bar"],
    "dc": "bar",
    "token": "bar",
    "cas": [False, True, True, False, False, True],
    "poll": ["last"],
    "wait": [True, "bar", True],
    "asyncio": ["bar", True, "new", True],
    "delete": [True, None, True],
    "delete a tree": [True, None],
    "another datacenter": ["ConsulException", True],
}
OF_NODE = {
    "get what is not there": None,
    "set": True,
    "get": {"LockIndex": 0, "Key": "hello", "Flags": 0, "Value": "world"},
    "raw": "world",
    "buffer": [119, 111, 114, 108, 100],
    "set bytes": True,
    "get bytes": [0, 255],
    "set with options": True,
    "get with options": {"LockIndex": 0, "Key": "a/ü b?#%", "Flags": 42, "Value": "ö"},
    "consistent": "world",
    "recurse": ["1", "2", "ö"],
    "keys": ["a/b", "a/c/d", "a/ü b?#%"],
    "keys to a separator": ["a/b", "a/c/", "a/ü b?#%"],
    "all keys": ["a/b", "a/c/d", "a/ü b?#%", "bytes", "hello"],
    "keys of nothing": "not found",
    "cas": [None, True, None, None],
    "watch": ["again", "second", None],
    "del": None,
    "del a tree": None,
}


SESSIONS_OF_PYTHON = {
    "info": ["my-session", "n1", "20s", 0, "release"],
    "info of nothing": None,
    "list": ["my-session", "other"],
    "node": ["my-session", "other"],
    "renew": True,
    "renew what is gone": "NotFound",
    "acquire": [True, False, True],
    "holder": True,
    "release": [False, True],
    "acquire what is free": True,
    "unknown session": "ConsulException",
    "wait": True,
    "held after its end": False,
    "destroy": [True, True],
    "behavior delete": None,
    "bad ttl": "ConsulException",
    "txn": [[None, "YmFy"], None, "ClientError"],
    "catalog": [True, ["ext", "n1"], [["ext", 5432]], True, []],
}
SESSIONS_OF_NODE = {
    "get": [["one", "n1", "20s", 0]],
    "list": ["one", "two"],
    "node": ["one", "two"],
    "renew": True,
    "renew what is gone": "Session id '6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01' not found",
    "acquire": [True, None],
    "holder": True,
    "release": True,
    "list after destroying": [],
    "transaction": [[None, "YmFy"], None],
    "a transaction that fails": "conflict",
}
PYTHON_PACKAGES = ["py-consul[asyncio]==1.8.0", "python-consul2[asyncio]==0.1.5"]


@pytest.mark.parametrize("package", PYTHON_PACKAGES)
def test_what_a_library_of_python_shows_of_sessions(agent: Agent, package: str) -> None:
    folder = had(package, PIP)
    told = run(agent, sys.executable, "sessions.py", folder, {"PYTHONPATH": str(folder)})
    assert told == SESSIONS_OF_PYTHON


def test_what_the_library_of_node_shows_of_sessions(agent: Agent) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no node or no npm on this host")
    folder = had("consul@2.0.1", (npm, "install", "--silent", "--prefix"))
    assert run(agent, node, "sessions.mjs", folder, {}) == SESSIONS_OF_NODE


@pytest.mark.parametrize("package", PYTHON_PACKAGES)
def test_what_a_library_of_python_shows_of_keys(agent: Agent, package: str) -> None:
    folder = had(package, PIP)
    told = run(agent, sys.executable, "keys.py", folder, {"PYTHONPATH": str(folder)})
    assert told == OF_PYTHON


def test_what_the_library_of_node_shows_of_keys(agent: Agent) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no node or no npm on this host")
    folder = had("consul@2.0.1", (npm, "install", "--silent", "--prefix"))
    assert run(agent, node, "keys.mjs", folder, {}) == OF_NODE


def had(package: str, install: tuple[str, ...]) -> Path:
    """Its folder; what was begun and not finished is begun anew."""
    folder = INSTALLED / package
    if not folder.exists():
        begun = folder.with_name(f"{package}.begun")
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True)
        try:
            command = [*install, str(begun), package]
            subprocess.run(command, cwd=begun, capture_output=True, timeout=INSTALL_S_MAX, check=True)
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"{package} could not be installed: {error}")
        begun.rename(folder)
    return folder


def run(agent: Agent, interpreter: str, script: str, folder: Path, variables: dict[str, str]) -> object:
    """In that folder, for node looks for packages beside the script."""
    copied = shutil.copy(SCRIPTS / script, folder)
    ended = subprocess.run(
        [interpreter, str(copied), str(agent.ports.http)],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)
