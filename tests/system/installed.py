"""Other people's packages for tests, each installed once into a folder of its own inside the environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

INSTALLED = Path(sys.prefix) / "clients"
INSTALL_S_MAX = 300.0
PIP = (sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "install", "--target")


def had(install: tuple[str, ...], *packages: str) -> Path:
    """Their folder; what was begun and not finished is begun anew."""
    folder = INSTALLED / "+".join(packages)
    if not folder.exists():
        begun = folder.with_name(f"{folder.name}.begun")
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True)
        try:
            command = [*install, str(begun), *packages]
            subprocess.run(command, cwd=begun, capture_output=True, timeout=INSTALL_S_MAX, check=True)
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"{', '.join(packages)} could not be installed: {error}")
        begun.rename(folder)
    return folder
