from __future__ import annotations

import base64
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from adsum.cli import main as main_module
from adsum.cli import version
from adsum.cli.command import Command, ParsedCommand
from adsum.cli.main import COMMANDS, NOT_HERE, load_command
from adsum.config.flags import AGENT_FLAGS
from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

MEMBER = {"Name": "n1", "Addr": "127.0.0.1", "Port": 8301, "Status": 1, "Tags": {}}
ADSUM = str(Path(sys.executable).with_name("adsum"))


def test_without_words_it_lists_all_commands(adsum: Adsum) -> None:
    status, out, _ = adsum()
    assert status == 0
    assert [name for name in COMMANDS if f"\n  {name} " not in out] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_explains_itself(adsum: Adsum, name: str) -> None:
    for words in ([*name.split(), "-h"], ["help", *name.split()]):
        status, out, err = adsum(*words)
        assert (status, err) == (0, "")
        assert out.startswith(f"Usage: adsum {name}")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_every_flag(adsum: Adsum, name: str) -> None:
    _, out, _ = adsum(*name.split(), "-h")
    shown = re.findall(r"^  -([a-z0-9_-]+)", out, re.MULTILINE)
    assert sorted(shown) == sorted(load_command(name).all_flags())


def test_the_agent_s_help_sets_apart_what_has_no_effect(adsum: Adsum) -> None:
    _, out, _ = adsum("agent", "-http-port=1", "-h")
    ours, without_effect, protecting = re.split(r"\nConsul's flags .*:\n", out)
    assert "  -recursor=… " in ours
    assert "  -ui  " in without_effect
    assert "  -serf-wan-allowed-cidrs=… " in protecting
    assert {f"-{flag.name}" for flag in AGENT_FLAGS} == set(re.findall(r"^  (-[a-z_-]+)", out, re.MULTILINE))


def test_a_slip_in_the_agent_s_flags_is_a_matter_of_usage(adsum: Adsum) -> None:
    assert adsum("agent", "-http-prt=1") == (
        2,
        "",
        'The agent did not start:\nflag -http-prt: is unknown: did you mean "-http-port"?\n',
    )
    assert adsum("agent", "-config-file=/nosuch.json").status == 1


def test_an_unknown_command_is_answered_with_the_nearest(adsum: Adsum) -> None:
    assert adsum("memebrs") == (
        2,
        "",
        'adsum: there is no command "memebrs"; did you mean members?\nTry `adsum help`.\n',
    )
    assert "did you mean services register?" in adsum("services", "regsiter").err


def test_a_command_of_consul_that_is_not_here_is_no_slip(adsum: Adsum) -> None:
    assert adsum("snapshot", "save", "x") == (
        2,
        "",
        "adsum: Consul has the command snapshot, Adsum has not yet\nTry `adsum help`.\n",
    )
    assert not set(NOT_HERE.split()) & {name.split()[0] for name in COMMANDS}


def test_a_flag_before_the_command_is_told_where_it_belongs(adsum: Adsum) -> None:
    assert adsum("-o", "json", "health") == (
        2,
        "",
        "adsum: -o stands before a command: flags follow it\nTry `adsum help`.\n",
    )


def test_half_a_command_lists_the_rest(adsum: Adsum) -> None:
    status, out, err = adsum("catalog")
    assert (status, out) == (2, "")
    assert "catalog nodes" in err
    assert "members" not in err
    assert adsum("catalog", "-h").status == 0


def test_a_flag_that_does_not_exist_is_a_matter_of_usage(adsum: Adsum) -> None:
    status, _, err = adsum("members", "-sattus=x")
    assert status == 2
    assert err == (
        "adsum: members: there is no flag -sattus; did you mean -status?\nTry `adsum members -h`.\n"
    )


def test_version_names_both_versions(adsum: Adsum) -> None:
    for words in (["version"], ["-v"], ["--version"]):
        status, out, _ = adsum(*words)
        assert status == 0
        assert re.fullmatch(r"Adsum v\d\S+\nSpeaks the API of Consul 1\.8\.7\n", out)


def test_keygen_gives_32_random_bytes(adsum: Adsum) -> None:
    keys = {adsum("keygen").out for _ in range(3)}
    assert len(keys) == 3
    for key in keys:
        assert len(key) == 45
        assert len(base64.b64decode(key)) == 32


def test_no_traceback_reaches_a_user(adsum: Adsum, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_call: ParsedCommand) -> int:
        raise KeyError("Name")

    monkeypatch.setattr(version, "COMMAND", Command(run))
    status, _, err = adsum("version")
    assert status == 1
    assert re.fullmatch(
        r"adsum: a bug of its own stopped it: KeyError: 'Name' \(test_main\.py:\d+\)\. Please report it\.\n",
        err,
    )


def test_an_interrupt_is_silent(adsum: Adsum, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_call: ParsedCommand) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(version, "COMMAND", Command(run))
    assert adsum("version") == (130, "", "")


def test_a_reader_that_goes_away_is_no_error() -> None:
    """The pipe has no reader from the start, and the output waits in a buffer until the very end."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run([ADSUM, "help"], stdout=write_end, stderr=subprocess.PIPE)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_is_told_in_a_sentence() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([ADSUM, "help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "adsum: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("words", ["version", "-h", "members -h", "keygen", "validate {file}", "members"])
def test_a_closed_output_is_told_in_a_sentence(agent: FakeAgent, tmp_path: Path, words: str) -> None:
    file = tmp_path / "good.json"
    file.write_text('{"data_dir": "/nowhere"}')
    agent.answers["GET /v1/agent/members"] = [MEMBER]
    done = in_a_shell(f"{words.format(file=file)} >&-")
    assert (done.returncode, done.stderr) == (
        1,
        "adsum: cannot write the output: the standard output is closed\n",
    )


def test_a_command_that_has_nothing_to_say_needs_no_output(agent: FakeAgent) -> None:
    agent.answers["PUT /v1/agent/force-leave/n9"] = (200, "")
    done = in_a_shell("force-leave n9 >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_said_to_people_never_lands_in_the_data() -> None:
    done = in_a_shell("memebrs 2>&-")
    assert (done.returncode, done.stdout) == (2, "")


def test_a_closed_input_holds_nothing_to_register() -> None:
    done = in_a_shell("services register - <&-")
    assert done.returncode == 1
    assert "standard input" in done.stderr
    assert "bug" not in done.stderr


def test_an_agent_whose_output_is_closed_logs_to_the_standard_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = in_a_shell(f"agent -dev -bind=127.0.0.1 -http-port={port} >&-")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"The agent did not start: Can't listen for HTTP on 127.0.0.1 port {port}: Address already in use"
    )


def in_a_shell(words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(f"{shlex.quote(ADSUM)} {words}", shell=True, capture_output=True, text=True)


def test_a_terminal_without_the_letter_still_gets_the_line() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([ADSUM, "completion", "-h"], capture_output=True, env=environment)
    assert done.returncode == 0
    assert done.stdout.isascii()


@pytest.mark.parametrize(
    ("command", "unwanted"), [("members", set[str]()), ("keygen", {"http", "json", "ssl"})]
)
def test_commands_load_no_more_than_they_need(agent: FakeAgent, command: str, unwanted: set[str]) -> None:
    heavy = {"trio", "msgspec", "cbor2", "dnslib", "asyncio", "argparse", "dataclasses"} | unwanted
    program = f"import sys\nfrom adsum.cli.main import main\nmain([{command!r}])\n"
    program += f"print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    agent.answers["GET /v1/agent/members"] = []
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_table_of_commands_and_the_files_agree() -> None:
    folder = Path(main_module.__file__).parent
    declared = list[str]()
    for path in folder.glob("*.py"):
        text = path.read_text()
        if "\nCOMMAND = " in text:
            declared.append(path.stem)
        elif path.stem != "main" and (families := text.partition("\nCOMMANDS = {")[2]):
            declared += re.findall(r'^    "(.*)": Command\(', families, re.MULTILINE)
    assert sorted(declared) == sorted(COMMANDS)
