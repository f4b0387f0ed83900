"""`adsum watch` on a real agent, and beside Consul's own where it is here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.fake_agent import fake_agent
from tests.system.agents import Agent, adsum_program, consul_program, running, until

ADSUM = adsum_program().command[0]
WAIT_S = 20.0


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with running(adsum_program()) as agent:
        agent.put("/v1/agent/service/register", {"Name": "web", "Tags": ["a", "b"], "Port": 80})
        yield agent


def environment(address: str) -> dict[str, str]:
    return os.environ | {"CONSUL_HTTP_ADDR": address, "SHELL": "/bin/sh"}


def address_of(agent: Agent) -> str:
    return f"127.0.0.1:{agent.ports.http}"


def watch(address: str, *words: str, program: str = ADSUM) -> tuple[int, str, str]:
    done = subprocess.run(
        [program, "watch", *words], capture_output=True, text=True, env=environment(address), timeout=WAIT_S
    )
    return done.returncode, done.stdout, done.stderr


@contextmanager
def watching(address: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [ADSUM, "watch", *words],
        env=environment(address),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
            process.terminate()
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_without_a_command_a_key_is_printed_once(agent: Agent) -> None:
    agent.call("PUT", "/v1/kv/a/b", b"hello")
    status, out, err = watch(address_of(agent), "-type=key", "-key=/a/b")
    shown = json.loads(out)
    assert (status, err) == (0, "")
    assert out.startswith('{\n    "Key": "a/b",\n    "CreateIndex": ')
    assert (shown["Value"], shown["Session"]) == ("aGVsbG8=", "")


def test_a_key_that_is_not_there_is_null(agent: Agent) -> None:
    assert watch(address_of(agent), "-type=key", "-key=none") == (0, "null\n", "")
    assert watch(address_of(agent), "-type=keyprefix", "-prefix=none/") == (0, "null\n", "")


EVERY = [
    ("-type=key", "-key=a/b"),
    ("-type=key", "-key=none"),
    ("-type=keyprefix", "-prefix=a/"),
    ("-type=services",),
    ("-type=nodes",),
    ("-type=service", "-service=web", "-tag=a", "-passingonly=true"),
    ("-type=service", "-service=none"),
    ("-type=checks", "-state=passing"),
    ("-type=checks", "-service=web"),
    ("-type=event", "-name=deploy"),
]


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_type_shows_what_consul_s_own_shows_of_it(agent: Agent, words: tuple[str, ...]) -> None:
    consul = consul_program()
    if consul is None:
        pytest.skip("real Consul is not here: set PEERS, or run the script that unpacks it")
    agent.call("PUT", "/v1/kv/a/b", b"hello")
    theirs = watch(address_of(agent), *words, program=consul.command[0])
    ours = watch(address_of(agent), *words)
    assert (ours[0], without_definitions(ours[1])) == (theirs[0], without_definitions(theirs[1]))


def without_definitions(shown: str) -> object:
    """What a check is made of, which Consul's client fills up with what it was not told."""
    return json.loads(shown, object_hook=lambda each: {k: each[k] for k in each if k != "Definition"})


def test_the_command_runs_now_and_for_each_change(agent: Agent) -> None:
    agent.call("PUT", "/v1/kv/c", b"1")
    with watching(address_of(agent), "-type=key", "-key=c", "echo $CONSUL_INDEX $(cat)") as process:
        index, _, said = line_of(process).partition(" ")
        assert json.loads(said)["Value"] == "MQ=="
        assert json.loads(said)["ModifyIndex"] == int(index)
        agent.call("PUT", "/v1/kv/other", b"")
        agent.call("PUT", "/v1/kv/c", b"2")
        assert json.loads(line_of(process).partition(" ")[2])["Value"] == "Mg=="
        agent.call("DELETE", "/v1/kv/c")
        assert line_of(process).endswith(" null\n")


def test_each_event_is_handed_over_once(agent: Agent) -> None:
    with watching(address_of(agent), "-type=event", "-name=one", "-shell=false", "cat") as process:
        assert line_of(process) == "[]\n"
        for payload in (b"a", b"b", b"c"):
            agent.call("PUT", "/v1/event/fire/one", payload)
            assert [each["Payload"] for each in json.loads(line_of(process))] == [
                {b"a": "YQ==", b"b": "Yg==", b"c": "Yw=="}[payload]
            ]


def test_without_a_shell_the_words_are_the_command_s(agent: Agent) -> None:
    words = ("-type=nodes", "-shell=false")
    with watching(address_of(agent), *words, "echo", "$HOME", "a  b") as process:
        assert line_of(process) == "$HOME a  b\n"
    status, _out, err = watch(address_of(agent), *words, "/bin/no-such")
    assert (status, err) == (1, "adsum: Error starting handler: /bin/no-such: No such file or directory\n")


def test_a_command_that_fails_ends_the_watch(agent: Agent) -> None:
    told = "adsum: Error executing handler: exit status 3\n"
    assert watch(address_of(agent), "-type=nodes", "exit 3") == (1, "", told)


def test_a_signal_ends_the_watch_and_the_command_that_runs(agent: Agent, tmp_path: Path) -> None:
    words = (
        "-type=nodes",
        f"trap 'echo told >{tmp_path}/t; exit' TERM INT; echo runs; while :; do sleep 0.1; done",
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        with watching(address_of(agent), *words) as process:
            assert line_of(process) == "runs\n"
            process.send_signal(number)
            assert process.wait(WAIT_S) == 0
        assert (tmp_path / "t").read_text() == "told\n"
        (tmp_path / "t").unlink()


def test_a_signal_that_comes_while_a_finalizer_is_called_is_not_lost() -> None:
    """Python swallows what is raised there, and to call one took long enough for a signal to come."""
    program = """
        import os, signal
        from adsum.cli.watch import _Signals

        class Dropped:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGTERM)
                os.getpid()

        with _Signals().end_it():
            Dropped()
            print("goes on")
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("status", [500, 503])
def test_an_agent_that_is_away_for_a_while_is_asked_again(status: int) -> None:
    with fake_agent() as first:
        line = "GET /v1/catalog/nodes"
        first.answers[line], first.headers[line] = [], {"X-Consul-Index": "5"}
        with watching(first.address, "-type=nodes", "echo $(cat)") as process:
            assert line_of(process) == "[]\n"
            first.answers[line] = (status, "No cluster leader")
            assert process.stderr is not None
            told = "adsum: watch: No cluster leader; asking again in 1 s\n"
            assert process.stderr.readline() == told
            first.answers[line], first.headers[line] = ["back"], {"X-Consul-Index": "6"}
            assert line_of(process) == '["back"]\n'
            assert first.asked[-1].query["wait"] == "25s"


def test_an_agent_that_has_met_nobody_yet_is_asked_again_and_its_empty_answer_is_not_handed_over() -> None:
    with fake_agent() as agent:
        line = "GET /v1/catalog/nodes"
        agent.answers[line], agent.headers[line] = [], {"X-Consul-Index": "5", "X-Adsum-Stale": "joining"}
        with watching(agent.address, "-type=nodes", "echo $(cat)") as process:
            assert process.stderr is not None
            assert process.stderr.readline() == (
                "adsum: watch: this agent has somebody to join, and has compared its catalog with nobody "
                "yet; asking again in 1 s\n"
            )
            agent.answers[line], agent.headers[line] = ["there"], {"X-Consul-Index": "6"}
            assert line_of(process) == '["there"]\n'


def test_an_index_that_fell_is_asked_for_anew_and_is_no_change() -> None:
    """As after a restart of an agent: what it says is what it said before."""
    with fake_agent() as agent:
        line = "GET /v1/catalog/nodes"
        agent.answers[line], agent.headers[line] = [], {"X-Consul-Index": "5"}
        with watching(agent.address, "-type=nodes", "echo $(cat)") as process:
            assert line_of(process) == "[]\n"
            agent.headers[line] = {"X-Consul-Index": "3"}
            until(lambda: [each.query.get("index") for each in agent.asked][-1:] == ["3"], within_s=WAIT_S)
            agent.answers[line], agent.headers[line] = ["new"], {"X-Consul-Index": "4"}
            assert line_of(process) == '["new"]\n'


def test_what_can_not_work_is_refused_before_anything_is_asked() -> None:
    for words, told in (
        ((), "the type of the watch is missing: -type=TYPE"),
        (("-type=key",), "a watch of type key needs its key"),
        (("-type=node",), "the flag -type takes key, keyprefix"),
        (("-type=nodes", "-state=any"), "a watch of type nodes takes no state"),
        (("-type=service", "-service=a", "-passingonly=maybe"), '-passingonly is true or false, not "maybe"'),
    ):
        status, _out, err = watch("127.0.0.1:1", *words)
        assert (status, told in err) == (2, True), err


def test_nobody_at_the_address_is_said_at_once() -> None:
    assert watch("127.0.0.1:1", "-type=nodes")[0] == 4


def test_a_filter_that_makes_no_sense_is_a_mistake_of_the_caller(agent: Agent) -> None:
    assert watch(address_of(agent), "-type=nodes", "-filter=((")[0] == 2
