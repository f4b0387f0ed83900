"""Against a small stand-in for the engine's API on a Unix socket."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
import trio.testing

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.health_checks.runner import CheckResult, Options
from tests.health_checks.support import Bench, read_request

ANSWER = b"HTTP/1.1 %d X\r\nConnection: close\r\n\r\n%s"


class Engine:
    """Creates exec `e1`, prints `output`, exits with `exit_code`; `create_code` 201 is success."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.create_code = 201
        self.output = b"fine\r\n"
        self.exit_code: int | None = 0
        self.hangs = False
        self.is_hanging = trio.Event()
        self.requests: list[tuple[str, object]] = []

    async def run(self, task_status: trio.TaskStatus[list[trio.SocketListener]]) -> None:
        sock = trio.socket.socket(trio.socket.AF_UNIX)
        await sock.bind(str(self.path))
        sock.listen()
        await trio.serve_listeners(self._one, [trio.SocketListener(sock)], task_status=task_status)

    async def _one(self, stream: trio.SocketStream) -> None:
        head, _, body = (await read_request(stream)).partition(b"\r\n\r\n")
        line = head.split(b" HTTP")[0].decode()
        self.requests.append((line, json.loads(body) if body else None))
        await stream.send_all(self._answer(line))
        if self.hangs and line.endswith("/start"):
            self.is_hanging.set()
            await trio.sleep_forever()
        await stream.aclose()

    def _answer(self, line: str) -> bytes:
        if line.endswith("/start"):
            return ANSWER % (200, self.output)
        if line.endswith("/json"):
            return ANSWER % (200, json.dumps({"ExitCode": self.exit_code}).encode())
        return ANSWER % (self.create_code, b'{"Id":"e1"}')


@pytest.fixture
async def engine(nursery: trio.Nursery, tmp_path: Path) -> Engine:
    engine = Engine(tmp_path / "docker.sock")
    await nursery.start(lambda task_status: engine.run(task_status))
    return engine


def options(path: Path) -> Options:
    return Options(environ={"DOCKER_HOST": f"unix://{path}"})


CHECK = CheckDefinition(docker_container_id="web/1", args=("sh", "-c", "true"))


async def test_program_runs_through_create_start_and_inspect(bench: Bench, engine: Engine) -> None:
    result = await bench.run(CHECK, options(engine.path))
    assert result == CheckResult(CheckStatus.PASSING, "fine\r\n")
    wish = {"AttachStdin": False, "AttachStdout": True, "AttachStderr": True, "Tty": True}
    assert engine.requests == [
        ("POST /containers/web%2F1/exec", wish | {"Cmd": ["sh", "-c", "true"]}),
        ("POST /exec/e1/start", {"Detach": False, "Tty": True}),
        ("GET /exec/e1/json", None),
    ]


@pytest.mark.parametrize(
    ("code", "status"), [(1, CheckStatus.WARNING), (2, CheckStatus.CRITICAL), (None, CheckStatus.CRITICAL)]
)
async def test_exit_code_decides(bench: Bench, engine: Engine, code: int | None, status: CheckStatus) -> None:
    engine.exit_code = code
    assert (await bench.run(CHECK, options(engine.path))).status is status


async def test_long_output_keeps_its_end(bench: Bench, engine: Engine) -> None:
    engine.output = b"x" * 8996 + b"end."
    result = await bench.run(CHECK, options(engine.path))
    assert result.output == "Captured 4096 of 9000 bytes\n...\n" + "x" * 4092 + "end."


@pytest.mark.parametrize(
    ("code", "output"),
    [
        (404, 'create exec failed for unknown container "web/1"'),
        (409, 'create exec failed since container "web/1" is paused or stopped'),
        (500, 'create exec failed for container "web/1" with status 500: {"Id":"e1"}'),
    ],
)
async def test_refusals_of_the_engine_are_critical(
    bench: Bench, engine: Engine, code: int, output: str
) -> None:
    engine.create_code = code
    assert await bench.run(CHECK, options(engine.path)) == CheckResult(CheckStatus.CRITICAL, output)


async def test_hanging_program_times_out_with_its_output(
    bench: Bench, engine: Engine, mock_clock: trio.testing.MockClock
) -> None:
    engine.hangs = True
    hanging, its = engine.is_hanging.wait, options(engine.path)
    result = await bench.run_past_its_deadline(CHECK, mock_clock, hanging, its)
    assert result.output == "Timed out (30s) running check\n\nfine\r\n"


async def test_absent_engine_is_critical_as_in_consul(bench: Bench, tmp_path: Path) -> None:
    check = CheckDefinition(docker_container_id="abc", args=("true",))
    path = tmp_path / "none.sock"
    result = await bench.run(check, options(path))
    assert result.output == (
        f'create exec failed for container abc: Post "http://{str(path).replace("/", "%2F")}'
        f'/containers/abc/exec": dial unix {path}: connect: no such file or directory'
    )


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (
            "tcp://user:hunter2@engine.test",
            "dial tcp: address user:***@engine.test: user and password in address",
        ),
        (
            "ssh://user:hunter2@engine.test",
            "DOCKER_HOST 'ssh://user:***@engine.test' is not supported: use unix:// or tcp://",
        ),
    ],
)
async def test_password_of_the_engine_is_hidden(bench: Bench, host: str, reason: str) -> None:
    result = await bench.run(CHECK, Options(environ={"DOCKER_HOST": host}))
    asked = 'Post "http://user:***@engine.test/containers/web%2F1/exec"'
    assert result.output == f"create exec failed for container web/1: {asked}: {reason}"
