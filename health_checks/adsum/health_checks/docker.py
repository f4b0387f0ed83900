"""A docker check runs a program inside a container, through the engine's socket: create, start, inspect.

As Consul does, the program gets a terminal, so that its output comes as one plain stream, and `DOCKER_HOST`
may name another socket or a `tcp://` address. The engine has no call that ends a running exec: at the
deadline we hang up and report, and what runs in the container is the container's business.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote

import h11

from adsum.catalog.definitions import CheckDefinition
from adsum.health_checks.attempt import CheckFailed, CheckResult, Surroundings
from adsum.health_checks.dial import SocketStream, TargetAttempt, dial_unix
from adsum.health_checks.output import Tail
from adsum.health_checks.script import critical_for_time, exit_status
from adsum.userinfo import without_password

DEFAULT_HOST = "unix:///var/run/docker.sock"
ANSWER_BYTES_MAX = 64 * 1024  # of the engine's JSON
OUTPUT_READ_BYTES_MAX = 1024 * 1024  # of the program's output; past it we hang up
ERROR_CHARACTERS_MAX = 512

Consume = Callable[[bytes], bool]  # whether more is wanted


class DockerAttempt(TargetAttempt):
    def __init__(self, definition: CheckDefinition, surroundings: Surroundings) -> None:
        super().__init__(definition, surroundings)
        self._container = definition.docker_container_id
        self._host = surroundings.options.environ.get("DOCKER_HOST") or DEFAULT_HOST
        self._shown_host = without_password(self._host)
        self._tail = Tail(surroundings.output_bytes_max(definition))

    async def run(self) -> CheckResult:
        exec_id = await self._create()
        await self._start(exec_id)
        code, answer = await self._ask("inspect", "GET", f"/exec/{quote(exec_id, safe='')}/json", None)
        exit_code = _field(answer, "ExitCode")
        if code != 200:
            raise self._refused("inspect", code, answer)
        # Null: still running, because we hung up.
        status = exit_status(exit_code if isinstance(exit_code, int) else -1)
        return CheckResult(status, self._tail.captured_text())

    def timed_out(self) -> CheckResult:
        return critical_for_time(self._definition, self._tail)

    async def _create(self) -> str:
        path = f"/containers/{quote(self._container, safe='')}/exec"
        attached = {"AttachStdin": False, "AttachStdout": True, "AttachStderr": True}
        wish = {**attached, "Tty": True, "Cmd": self._definition.args}
        code, answer = await self._ask("create", "POST", path, wish)
        if code == 404:
            raise CheckFailed(f'create exec failed for unknown container "{self._container}"')
        exec_id = _field(answer, "Id")
        if code != 201 or not isinstance(exec_id, str):
            raise self._refused("create", code, answer)
        return exec_id

    async def _start(self, exec_id: str) -> None:
        def keep(data: bytes) -> bool:
            self._tail.append(data)
            return self._tail.total_bytes <= OUTPUT_READ_BYTES_MAX

        path = f"/exec/{quote(exec_id, safe='')}/start"
        code = await self._call("start", "POST", path, {"Detach": False, "Tty": True}, keep)
        if code != 200:
            raise self._refused("start", code, self._tail.text().encode())
        self._surroundings.counters.bodies_cut += self._tail.total_bytes > OUTPUT_READ_BYTES_MAX

    async def _ask(self, step: str, method: str, path: str, wish: object) -> tuple[int, bytes]:
        answer = bytearray()

        def collect(data: bytes) -> bool:
            answer.extend(data[: ANSWER_BYTES_MAX - len(answer)])
            return len(answer) < ANSWER_BYTES_MAX

        code = await self._call(step, method, path, wish, collect)
        return code, bytes(answer)

    async def _call(self, step: str, method: str, path: str, wish: object, consume: Consume) -> int:
        failed = f"{step} exec failed for container {self._container}"
        try:
            stream = await self._connect()
        except CheckFailed as error:
            socket = quote(self._shown_host.partition("://")[2], safe=":*@")
            raise CheckFailed(f'{failed}: {method.capitalize()} "http://{socket}{path}": {error}') from error
        try:
            return await _exchange(stream, method, path, wish, consume)
        except (CheckFailed, h11.RemoteProtocolError) as error:
            raise CheckFailed(f"{failed}: {error}") from error
        finally:
            stream.close()

    async def _connect(self) -> SocketStream:
        scheme, _separator, rest = self._host.partition("://")
        if scheme == "unix":
            return await dial_unix(rest)
        if scheme == "tcp":
            return await self._dialer.dial(rest)
        raise CheckFailed(f"DOCKER_HOST {self._shown_host!r} is not supported: use unix:// or tcp://")

    def _refused(self, step: str, code: int, answer: bytes) -> CheckFailed:
        if code == 409:
            return CheckFailed(f'{step} exec failed since container "{self._container}" is paused or stopped')
        said = answer.decode("utf-8", "replace")[:ERROR_CHARACTERS_MAX].strip()
        return CheckFailed(f'{step} exec failed for container "{self._container}" with status {code}: {said}')


async def _exchange(stream: SocketStream, method: str, path: str, wish: object, consume: Consume) -> int:
    protocol = h11.Connection(h11.CLIENT)
    body = b"" if wish is None else json.dumps(wish).encode()
    headers = [
        ("Host", "docker"),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
    ]
    data = protocol.send(h11.Request(method=method, target=path, headers=headers)) or b""
    data += (protocol.send(h11.Data(data=body)) or b"") + (protocol.send(h11.EndOfMessage()) or b"")
    await stream.send_all(data)
    code = 0
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            protocol.receive_data(await stream.receive_some())
        elif isinstance(event, h11.Response):
            code = event.status_code
        elif not isinstance(event, h11.InformationalResponse) and not (
            isinstance(event, h11.Data) and consume(bytes(event.data))
        ):
            return code


def _field(answer: bytes, name: str) -> object:
    try:
        document = json.loads(answer)
    except ValueError:
        return None
    return document.get(name) if isinstance(document, dict) else None
