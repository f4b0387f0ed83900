"""Makes .venv, once, for whoever asks first.

    python3 tools/environment.py        prints nothing when the environment is current

Two `make` at once must not build the same folder twice, so a lock file guards it. A stamp says when
the environment is out of date: it is made of what decides the contents (those parts of pyproject.toml
that pip reads, the constraints, the interpreter, the place, since scripts in a venv name it), so that
editing a ruff rule costs nobody a reinstall.

pip compiles what it installs to bytecode, but not what it installs editable, and where
PYTHONDONTWRITEBYTECODE is set (containers like to) nothing else does: every start of the agent would then
take 40 ms longer than on a host that installed it. So each `make` compiles the sources that have changed;
looking through unchanged ones takes 0.03 s.
"""

from __future__ import annotations

import compileall
import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "adsum-stamp"
CONSTRAINTS = ROOT / "tools" / "constraints.txt"
EXTRAS = ".[grpc]"
IMPORT_ROOTS = ("agent", "dns", "health_checks")
NO_VENV = "Could not make .venv. On Debian: apt-get install python3-venv (for 3.11: python3.11-venv)."


def main() -> int:
    with open(ROOT / ".venv.lock", "w") as lock:
        wait_for(lock)
        is_current = STAMP.exists() and STAMP.read_text() == wanted_stamp()
        status = 0 if is_current else build()
        compile_sources()
    return status


def compile_sources() -> None:
    """What does not compile, or may not be written, is left to whoever imports it."""
    for root in IMPORT_ROOTS:
        compileall.compile_dir(ROOT / root, quiet=2)


def wait_for(lock: TextIO) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another make is making the environment; waiting for it …", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def wanted_stamp() -> str:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    installed = [pyproject["build-system"], pyproject["project"], pyproject["dependency-groups"]]
    decides = [sys.version, str(VENV), CONSTRAINTS.read_text(), *installed, pyproject["tool"]["hatch"]]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def build() -> int:
    started = time.monotonic()
    print(f"making {VENV} with Python {sys.version.split()[0]}; this happens once …", flush=True)
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    except subprocess.CalledProcessError:
        return give_up(NO_VENV)
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "-qq", "--disable-pip-version-check", "install"]
    try:
        # --group needs pip 25.1; Debian's venv brings an older one.
        subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
        constrained = [*pip, "--constraint", str(CONSTRAINTS), "--editable", EXTRAS, "--group", "dev"]
        subprocess.run(constrained, check=True, cwd=ROOT)
    except subprocess.CalledProcessError:
        return give_up("Could not install what pyproject.toml names; pip's message above says why.")
    STAMP.write_text(wanted_stamp())
    print(f"made {VENV} in {time.monotonic() - started:.0f} s", flush=True)
    return 0


def give_up(sentence: str) -> int:
    shutil.rmtree(VENV, ignore_errors=True)
    print(sentence, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
