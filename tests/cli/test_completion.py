"""The scripts are run by the shells themselves where they are installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from adsum.cli.main import COMMANDS, load_command
from tests.cli.conftest import Adsum

ASK_BASH = (
    "COMP_WORDS=(%s); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); _adsum; printf '%%s\\n' \"${COMPREPLY[@]}\""
)


def shell(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed, so its completion was not tried")
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("adsum m", ["members", "maint", "monitor"]),
        ("adsum services ''", ["list", "register", "deregister"]),
        ("adsum catalog no", ["nodes"]),
        ("adsum members -det", ["-detailed"]),
        ("adsum members -o ''", ["table", "wide", "json", "jsonl"]),
        ("adsum members -o = js", ["json", "jsonl"]),
        ("adsum members --o = js", ["json", "jsonl"]),
        ("adsum catalog services -ta", ["-tags"]),
        ("adsum agent -http-p", ["-http-port"]),
        ("adsum validate etc", [""]),
    ],
)
def test_bash_completes(adsum: Adsum, words: str, expected: list[str]) -> None:
    script = adsum("completion", "bash").out + ASK_BASH % words
    done = subprocess.run([shell("bash"), "-c", script], capture_output=True, text=True)
    assert (done.stdout.splitlines(), done.stderr) == (expected, "")


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_the_shell_takes_the_script(adsum: Adsum, name: str) -> None:
    script = adsum("completion", name).out
    done = subprocess.run([shell(name), "-n"], input=script, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_command_and_flag_is_in_the_script(adsum: Adsum, name: str) -> None:
    script = adsum("completion", name).out
    for command in COMMANDS:
        assert all(word in script for word in command.split())
        assert [flag for flag in load_command(command).all_flags() if flag not in script] == []


def test_an_unknown_shell_is_a_matter_of_usage(adsum: Adsum) -> None:
    status, _, err = adsum("completion", "tcsh")
    assert status == 2
    assert "bash, zsh, fish" in err
