"""The checkout as somebody else gets it: made by two people at once, and built into a wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.rooms import IMPORT_ROOTS, ROOT


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Path]:
    """What git would hand over if all were committed: no environment, no caches."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    yield tmp_path
    shutil.rmtree(tmp_path)  # an environment is some 200 MB, and pytest would keep three


def start_make(folder: Path, target: str) -> subprocess.Popen[str]:
    # As a person would: a make that runs this test would have this one say which folders it enters.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.Popen(
        ["make", target], cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_two_make_at_once_make_one_environment_and_say_what_they_do(clone: Path) -> None:
    makes = [start_make(clone, "environment") for _ in range(2)]
    outputs = [make.communicate()[0] for make in makes]
    assert [make.returncode for make in makes] == [0, 0]
    together = "".join(outputs)
    assert together.count("making ") == 2, together  # one makes it, the other says that it waits
    assert together.count("made ") == 1, together
    version = subprocess.run([clone / ".venv/bin/adsum", "version"], capture_output=True, text=True)
    assert version.returncode == 0, version.stderr
    again = start_make(clone, "environment")
    assert again.communicate()[0] == "", "a current environment costs no time and no words"


def test_an_environment_that_cannot_be_made_is_removed_and_the_package_named(clone: Path) -> None:
    (clone / "tools/constraints.txt").write_text("trio==0.0.1\n")  # no such release
    make = start_make(clone, "environment")
    assert "Could not install" in make.communicate()[0]
    assert make.returncode != 0
    assert not (clone / ".venv").exists()


def test_wheel_holds_every_room_with_its_type_marker(clone: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", "."]
    subprocess.run(command, cwd=clone, check=True, capture_output=True)
    (wheel,) = (clone / "dist").glob("adsum-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(root)) for root in IMPORT_ROOTS for path in root.rglob("*.py")}
    rooms = {
        str(init.parent.relative_to(root))
        for root in IMPORT_ROOTS
        for init in root.glob("adsum/*/__init__.py")
    }
    assert modules - names == set()
    assert {f"{room}/py.typed" for room in rooms} - names == set()
    assert not any(name.startswith(("tests", "tools", "agent/", "dns/")) for name in names)
    assert any(name.endswith("LICENSE") for name in names)
