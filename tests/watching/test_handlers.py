"""Real programs and real requests."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
import trio
import trio.testing

from adsum.config.config import HttpHandler, WatchDefinition
from adsum.health_checks.attempt import CheckFailed
from adsum.health_checks.http import HttpAttempt
from adsum.now import SECOND
from adsum.watch_plan import plan_of
from adsum.watching.counters import WatchCounters
from adsum.watching.handlers import Handlers
from adsum.watching.watch import Handle, HandlerFailed
from tests.health_checks.support import Bench

NODES = plan_of("nodes", {})


def program(*args: str, counters: WatchCounters | None = None) -> Handle:
    return Handlers(counters or WatchCounters(), 1).of(WatchDefinition(plan=NODES, args=args))


def request(url: str, counters: WatchCounters | None = None, **fields: object) -> Handle:
    http = HttpHandler(url=url, **fields)  # type: ignore[arg-type]
    return Handlers(counters or WatchCounters(), 1).of(WatchDefinition(plan=NODES, http=http))


async def test_a_program_finds_json_on_its_standard_input_and_the_index_in_its_environment(
    tmp_path: Path,
) -> None:
    await program("/bin/sh", "-c", f"(echo $CONSUL_INDEX; cat) >{tmp_path}/x")(7, b'["a"]\n')
    assert (tmp_path / "x").read_text() == '7\n["a"]\n'


async def test_a_program_that_does_not_read_its_input_holds_nobody_up() -> None:
    await program("/bin/true")(7, b"x" * 1_000_000)


async def test_a_program_that_fails_is_told_with_the_end_of_what_it_printed() -> None:
    with pytest.raises(HandlerFailed, match=r"^/bin/sh: exit status 3: out\nerr$"):
        await program("/bin/sh", "-c", "echo out; echo err >&2; exit 3")(1, b"")
    with pytest.raises(HandlerFailed, match="no/such: no such file or directory"):
        await program("/no/such")(1, b"")
    with pytest.raises(HandlerFailed) as failed:
        await program("/bin/sh", "-c", "yes | head -c 100000; exit 1")(1, b"")
    assert len(str(failed.value)) < 4_200


async def test_a_program_that_goes_on_for_ever_is_killed_with_what_it_started(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    counters, failures, alive = WatchCounters(), list[str](), tmp_path / "alive"
    os.mkfifo(alive)
    handle = program(
        "/bin/sh", "-c", f"exec 3>{alive}; echo part; sleep 600 & echo up >&3; wait", counters=counters
    )

    async def run() -> None:
        with pytest.raises(HandlerFailed) as failed:
            await handle(1, b"")
        failures.append(str(failed.value))

    nursery.start_soon(run)
    reader = await trio.to_thread.run_sync(os.open, alive, os.O_RDONLY)
    assert await trio.to_thread.run_sync(os.read, reader, 100) == b"up\n"
    await trio.testing.wait_all_tasks_blocked(0.01)
    mock_clock.jump(599)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert failures == []
    mock_clock.jump(1)
    assert await trio.to_thread.run_sync(os.read, reader, 100) == b"", "the last holder is dead"
    os.close(reader)
    while not failures:
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert failures == ["killed after 10m0s: part"]
    assert counters.handlers_timed_out == 1


async def test_programs_wait_for_their_turn(tmp_path: Path) -> None:
    go, log = tmp_path / "go", tmp_path / "log"
    os.mkfifo(go)
    handlers = Handlers(WatchCounters(), 1)
    async with trio.open_nursery() as both:
        for name, script in (("first", f"cat {go}; echo first >>{log}"), ("second", f"echo second >>{log}")):
            handle = handlers.of(WatchDefinition(plan=NODES, args=("/bin/sh", "-c", script)))
            both.start_soon(handle, 1, name.encode())
            await trio.testing.wait_all_tasks_blocked(0.05)
        assert not log.exists()
        await trio.to_thread.run_sync(go.write_bytes, b"")
    assert log.read_text() == "first\nsecond\n"


async def test_a_request_carries_json_and_the_index(bench: Bench) -> None:
    port, requests = await bench.serve_recording([b"HTTP/1.1 204 No Content\r\n\r\n"])
    header = (("X-A", "b"), ("X-A", "c"))
    await request(f"http://127.0.0.1:{port}/changed?x=1", method="PUT", header=header)(7, b'["a"]\n')
    head, _, body = requests[0].decode().partition("\r\n\r\n")
    assert head.startswith("PUT /changed?x=1 HTTP/1.1\r\n")
    for line in ("X-Consul-Index: 7", "Content-Type: application/json", "X-A: b", "X-A: c"):
        assert f"\r\n{line}\r\n" in head, line
    assert body == '["a"]\n'


async def test_an_answer_above_299_is_a_failure_that_says_what_it_answered(bench: Bench) -> None:
    port = await bench.serve_answer(b"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nlater")
    with pytest.raises(HandlerFailed, match="503 Busy Output: later"):
        await request(f"http://127.0.0.1:{port}/x")(1, b"")


async def test_a_request_that_is_not_answered_in_its_time_is_a_failure(
    bench: Bench, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    heard, failures = trio.Event(), list[str]()

    async def silent(_stream: trio.abc.Stream) -> None:
        heard.set()
        await trio.sleep_forever()

    port, counters = await bench.serve(silent), WatchCounters()

    async def run() -> None:
        with pytest.raises(HandlerFailed) as failed:
            await request(f"http://127.0.0.1:{port}/x", counters, timeout_ns=3 * SECOND)(1, b"")
        failures.append(str(failed.value))

    nursery.start_soon(run)
    await heard.wait()
    await trio.testing.wait_all_tasks_blocked(0.01)
    mock_clock.jump(3)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert "Client.Timeout exceeded" in failures[0]
    assert counters.handlers_timed_out == 1


async def test_want_of_files_is_no_failure_of_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_flags: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(os, "pipe2", refused)
    with pytest.raises(OSError, match="too many open files"):
        await program("/bin/true")(1, b"")


@pytest.mark.parametrize(
    ("place", "name", "refusal"),
    [
        (subprocess, "Popen", BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")),
        (trio.to_thread, "run_sync", RuntimeError("can't start new thread")),
    ],
)
async def test_want_of_a_process_or_a_thread_is_no_failure_of_the_handler(
    monkeypatch: pytest.MonkeyPatch, place: object, name: str, refusal: Exception
) -> None:
    def refused(*_args: object, **_kwargs: object) -> None:
        raise refusal

    with monkeypatch.context() as kernel:
        kernel.setattr(place, name, refused)
        with pytest.raises(OSError, match="Resource temporarily unavailable"):
            await program("/bin/true")(1, b"")


async def test_a_connection_that_is_refused_for_now_is_a_failure_of_the_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same number, from a target whose queue is full."""

    async def refused(_self: object) -> None:
        raise CheckFailed("connect") from BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(HttpAttempt, "run", refused)
    with pytest.raises(HandlerFailed, match="connect"):
        await request("http://127.0.0.1:1/x")(1, b"")
