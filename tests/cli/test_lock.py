"""`adsum lock` on a real agent, and beside Consul's own where it is here."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from textwrap import dedent
from typing import cast

import pytest

from adsum.cli.connection import Api
from adsum.cli.lock import OUT_OF_TIME, _KeptAlive, now_s
from adsum.cli.locked_command import GRACE_S
from adsum.cli.locking import TTL_S, LockSession, cleaned
from tests.system.agents import Agent, adsum_program, consul_program, running, until

ADSUM = adsum_program().command[0]
WAIT_S = 20.0


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with running(adsum_program()) as agent:
        yield agent


def environment(agent: Agent) -> dict[str, str]:
    return os.environ | {"CONSUL_HTTP_ADDR": f"127.0.0.1:{agent.ports.http}", "SHELL": "/bin/sh"}


def lock(agent: Agent, *words: str, data: str = "", program: str = ADSUM) -> tuple[int, str, str]:
    done = subprocess.run(
        [program, "lock", *words],
        input=data,
        capture_output=True,
        text=True,
        env=environment(agent),
        timeout=WAIT_S,
    )
    return done.returncode, done.stdout, done.stderr


class Holder:
    """`adsum lock` in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def end(self, by: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Its status, and what it said to people."""
        self.process.send_signal(by)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        _out, err = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, err


@contextmanager
def holding(agent: Agent, *words: str) -> Iterator[Holder]:
    """Started, and holding the lock: its command said so."""
    with subprocess.Popen(
        [ADSUM, "lock", *words],
        env=environment(agent),
        start_new_session=True,  # without a terminal, wherever the tests run
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield Holder(process)
            process.terminate()
            process.wait(WAIT_S)
        finally:
            process.kill()


@contextmanager
def waiting(agent: Agent, *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [ADSUM, "lock", *words],
        env=environment(agent),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def session_of(agent: Agent, key: str) -> str:
    return str(agent.get_json(f"/v1/kv/{key}")[0]["Session"])


def keys_below(agent: Agent, prefix: str) -> list[str]:
    status, body = agent.call("GET", f"/v1/kv/{prefix}?keys")
    return list(json.loads(body)) if status == 200 else []


def test_the_command_runs_while_the_lock_is_held_and_nothing_is_left(agent: Agent) -> None:
    status, out, _err = lock(agent, "a", "echo $CONSUL_LOCK_HELD; echo $ADSUM_FENCING_TOKEN")
    held, token = out.splitlines()
    assert (status, held) == (0, "true")
    assert int(token) > 0
    assert keys_below(agent, "a/") == []


def test_the_status_of_the_command_is_passed_on_where_somebody_asks_for_it(agent: Agent) -> None:
    told = "Error running handler: exit status 3\n"
    assert lock(agent, "a", "exit 3") == (0, "", told)
    assert lock(agent, "-child-exit-code", "a", "exit", "3") == (2, "", told)


def test_a_command_without_a_shell_gets_its_words_as_they_are(agent: Agent) -> None:
    assert lock(agent, "-shell=false", "a", "echo", "$HOME", "a  b") == (0, "$HOME a  b\n", "")
    status, _out, err = lock(agent, "-shell=false", "a", "/bin/no-such")
    assert (status, "Error starting handler" in err) == (1, True)
    assert keys_below(agent, "a/") == []


def test_the_standard_input_is_the_command_s_where_somebody_asks_for_it(agent: Agent) -> None:
    assert lock(agent, "a", "cat", data="said")[1] == ""
    assert lock(agent, "-pass-stdin", "a", "cat", data="said")[1] == "said"


def test_who_waits_for_a_lock_gives_up_when_its_time_is_over(agent: Agent) -> None:
    with holding(agent, "b", "echo held; exec sleep 60") as holder:
        status, out, err = lock(agent, "-timeout=1s", "b", "echo never")
        assert (status, out) == (1, "")
        assert err == "Shutdown triggered or timeout during lock acquisition\n"
        holder.end()
    assert lock(agent, "b", "echo mine")[1] == "mine\n"


def test_a_lock_that_is_lost_ends_the_command(agent: Agent) -> None:
    with holding(agent, "-verbose", "c", "echo held; exec sleep 60") as holder:
        agent.put(f"/v1/session/destroy/{session_of(agent, 'c/.lock')}")
        status, err = holder.wait()
    assert status == 0
    told = re.sub(r"pid \d+", "pid N", err)
    assert told == (
        "Setting up lock at path: c/.lock\n"
        "Attempting lock acquisition\n"
        "Starting handler\n"
        "Lock lost, killing child\n"
        "Terminating child pid N\n"
        "Child terminated\n"
        "Error running handler: signal: terminated\n"
        "Cleanup succeeded\n"
    )


def test_a_signal_ends_the_command_and_lets_the_lock_go(agent: Agent) -> None:
    with holding(agent, "d", "echo held; exec sleep 60") as holder:
        holder.end(signal.SIGINT)
    assert keys_below(agent, "d/") == []


def test_a_signal_while_it_waits_leaves_no_session(agent: Agent) -> None:
    with holding(agent, "w", "echo held; exec sleep 60") as holder:
        with subprocess.Popen([ADSUM, "lock", "w", "true"], env=environment(agent)) as waiting:
            try:
                until(lambda: len(agent.get_json("/v1/session/list")) == 2, within_s=WAIT_S)
                waiting.terminate()
                assert waiting.wait(WAIT_S) == 1
            finally:
                waiting.kill()
        assert len(agent.get_json("/v1/session/list")) == 1
        holder.end()


def test_a_signal_that_comes_while_a_finalizer_is_called_is_heard_when_the_answer_comes() -> None:
    """Python swallows what is raised there."""
    program = """
        import os, signal
        from adsum.cli.command import CommandFailed
        from adsum.cli.lock import _on_signals, _ToldToEnd
        from adsum.cli.locking import Patience

        class Dropped:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGTERM)
                os.getpid()

        told = _ToldToEnd()
        patience = Patience(None, (told.check,))
        with _on_signals(told.by_signal_at_once):
            print(patience.is_over())
            Dropped()
            try:
                patience.is_over()
            except CommandFailed as problem:
                print(problem)
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True)
    told = "Shutdown triggered or timeout during lock acquisition"
    assert (done.returncode, done.stdout) == (0, f"False\n{told}\n")


def test_a_command_does_not_outlive_its_lock_where_nobody_reads_what_is_said(agent: Agent) -> None:
    with holding(agent, "-verbose", "deaf", "echo held; exec sleep 60") as holder:
        assert holder.process.stderr is not None
        holder.process.stderr.close()
        session = session_of(agent, "deaf/.lock")
        agent.put(f"/v1/session/destroy/{session}")
        assert holder.process.wait(WAIT_S) == 0
        assert [each for each in agent.get_json("/v1/session/list") if each["ID"] == session] == []


def test_a_holder_whose_lock_was_overwritten_has_lost_it(agent: Agent) -> None:
    with holding(agent, "-n=2", "torn", "echo held; exec sleep 60") as holder:
        agent.call("PUT", "/v1/kv/torn/.lock", b"anything")
        _status, err = holder.wait()
    assert "Lock lost, killing child\n" in err
    assert "Traceback" not in err
    agent.call("DELETE", "/v1/kv/torn?recurse", b"")


def test_all_that_the_command_started_ends_with_it(agent: Agent, tmp_path: Path) -> None:
    started = tmp_path / "pid"
    words = f"sleep 60 & echo $! >{started}; echo held; wait"
    with holding(agent, "group", words) as holder:
        pid = int(started.read_text())
        assert runs(pid)
        holder.end()
    assert until(lambda: not runs(pid), within_s=WAIT_S)


def test_the_lock_is_held_until_what_outlives_its_shell_has_cleaned_up(agent: Agent, tmp_path: Path) -> None:
    """As where a service manager tells every process at once."""
    shell, cleaned_up = tmp_path / "shell", tmp_path / "cleaned up"
    work = f"trap 'sleep 0.5; echo >\"{cleaned_up}\"; exit' TERM; echo held; while :; do sleep 0.1; done"
    with holding(agent, "slow", f"echo $$ >{shell}; ({work}); echo after") as holder:
        os.killpg(int(shell.read_text()), signal.SIGTERM)
        status, err = holder.end()
    assert (status, cleaned_up.exists()) == (0, True), err


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2]
    except FileNotFoundError:
        return False
    return not state.startswith("Z")


def test_a_prefix_names_the_same_lock_however_it_is_written(agent: Agent) -> None:
    """As Go's `path.Join` has it, by which Consul's own makes the key."""
    written = {"a/": "a", "a//b": "a/b", "./a": "a", "a/../b": "b", "": "", ".": "", "/a": "/a", "//a": "/a"}
    assert {each: cleaned(each) for each in written} == written
    with holding(agent, "same/", "echo held; exec sleep 60"):
        assert session_of(agent, "same/.lock")
        assert lock(agent, "-timeout=300ms", "same", "echo never")[0] == 1


def test_who_is_told_to_end_while_it_waits_for_a_semaphore_leaves_no_key(agent: Agent) -> None:
    with holding(agent, "-n=2", "left", "echo held; exec sleep 60") as first:
        with holding(agent, "-n=2", "left", "echo held; exec sleep 60") as second:
            with waiting(agent, "-n=2", "left", "echo never") as third:
                assert until(lambda: len(keys_below(agent, "left/")) == 4, within_s=WAIT_S)
                third.terminate()
                _out, err = third.communicate(timeout=WAIT_S)
                assert (third.returncode, err) == (1, f"adsum: {OUT_OF_TIME}\n")
            assert len(keys_below(agent, "left/")) == 3
            second.end()
        first.end()
    assert keys_below(agent, "left/") == []


def test_a_waiter_whose_session_ends_gives_up_and_runs_nothing(agent: Agent) -> None:
    with (
        holding(agent, "-n=2", "dead", "echo held; exec sleep 60"),
        holding(agent, "-n=2", "dead", "echo held; exec sleep 60"),
        waiting(agent, "-n=2", "-name=third", "dead", "echo never") as third,
    ):
        assert until(lambda: len(keys_below(agent, "dead/")) == 4, within_s=WAIT_S)
        (session,) = [each["ID"] for each in agent.get_json("/v1/session/list") if each["Name"] == "third"]
        agent.put(f"/v1/session/destroy/{session}")
        out, err = third.communicate(timeout=WAIT_S)
        assert (third.returncode, out) == (1, "")
        assert err == "adsum: Lock acquisition failed: the session ended while it waited\n"


def test_a_command_is_in_doubt_before_the_session_of_its_lock_can_end() -> None:
    """Twice the TTL after the last renewal, less the grace in which the command ends."""
    session, api = cast("LockSession", None), cast("Api", None)
    begun_s = now_s()
    assert not _KeptAlive(session, api, begun_s - 20).is_in_doubt()
    assert _KeptAlive(session, api, begun_s - 2 * TTL_S + GRACE_S + 1).is_in_doubt()


def test_a_semaphore_lets_in_as_many_as_it_says_and_nobody_with_another_number(agent: Agent) -> None:
    with (
        holding(agent, "-n=2", "s", "echo held; exec sleep 60") as first,
        holding(agent, "-n", "2", "s", "echo held; exec sleep 60") as second,
    ):
        status, _out, err = lock(agent, "-n=2", "-timeout=500ms", "s", "echo never")
        assert (status, err) == (1, "Shutdown triggered or timeout during lock acquisition\n")
        status, _out, err = lock(agent, "-n=3", "s", "echo never")
        assert status == 1
        assert "semaphore limit conflict (lock: 2, local: 3)" in err
        first.end()
        second.end()
    assert keys_below(agent, "s/") == []


def test_what_makes_no_sense_is_refused_before_anything_is_asked(agent: Agent) -> None:
    for words in (("-n=0", "a", "true"), ("-timeout=-1s", "a", "true"), ("a",)):
        assert lock(agent, *words)[0] == 2
    assert agent.get_json("/v1/session/list") == []


@pytest.mark.parametrize("limit", [1, 2])
def test_it_competes_with_consul_s_own_for_the_same_lock(agent: Agent, limit: int) -> None:
    consul = consul_program()
    if consul is None:
        pytest.skip("real Consul is not here: set PEERS, or run the script that unpacks it")
    prefix = f"shared{limit}"
    with ExitStack() as holders:
        for _ in range(limit):
            holders.enter_context(holding(agent, f"-n={limit}", prefix, "echo held; exec sleep 60"))
        words = (f"-n={limit}", "-timeout=1s", prefix, "echo never")
        assert lock(agent, *words, program=consul.command[0])[:2] == (1, "")
    assert lock(agent, f"-n={limit}", prefix, "echo mine", program=consul.command[0])[1] == "mine\n"
