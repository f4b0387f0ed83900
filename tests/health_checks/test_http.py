"""Texts and statuses are those that Consul 1.8.7 gave for the same servers, unless a test says otherwise."""

from __future__ import annotations

import gzip
import re
import socket
import ssl
import struct
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.health_checks.http_response import BODY_BYTES_MAX, BODY_PIECES_MAX
from adsum.health_checks.runner import Options
from adsum.now import MILLISECOND
from tests.health_checks.support import Bench, hang, read_head

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FOUND = b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 5\r\n\r\nmoved"
SOON_NS = 50 * MILLISECOND


async def test_request_is_the_one_consul_sends(bench: Bench) -> None:
    port, requests = await bench.serve_recording([OK])
    await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/p?q=1#part"))
    assert requests == [
        b"GET /p?q=1 HTTP/1.1\r\n"
        b"Host: 127.0.0.1:%d\r\n"
        b"User-Agent: Consul Health Check\r\n"
        b"Accept: text/plain, text/*, */*\r\n"
        b"Accept-Encoding: gzip\r\n"
        b"Connection: close\r\n\r\n" % port
    ]


async def test_method_headers_host_and_body_are_the_definitions(bench: Bench) -> None:
    port, requests = await bench.serve_recording([OK])
    header = {"Content-Type": ["application/json"], "X-Two": ["a", "b"], "Host": ["my.host"]}
    await bench.run(
        CheckDefinition(http=f"http://127.0.0.1:{port}/p", method="POST", body='{"a":1}', header=header)
    )
    assert requests == [
        (
            b"POST /p HTTP/1.1\r\n"
            b"Host: my.host\r\n"
            b"User-Agent: Consul Health Check\r\n"
            b"Content-Length: 7\r\n"
            b"Accept: text/plain, text/*, */*\r\n"
            b"Content-Type: application/json\r\n"
            b"X-Two: a\r\n"
            b"X-Two: b\r\n"
            b"Accept-Encoding: gzip\r\n"
            b'Connection: close\r\n\r\n{"a":1}'
        )
    ]


async def test_lower_case_headers_override_too_unlike_consul(bench: Bench) -> None:
    """Consul sends its own User-Agent and Host beside the lower-case ones."""
    port, requests = await bench.serve_recording([OK])
    header = {"user-agent": ["mine"], "accept": ["x/y"], "host": ["low.host"]}
    await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/", header=header))
    assert requests == [
        (
            b"GET / HTTP/1.1\r\nHost: low.host\r\nUser-Agent: mine\r\naccept: x/y\r\n"
            b"Accept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        )
    ]


async def test_framing_headers_of_the_definition_are_not_sent(bench: Bench) -> None:
    port, requests = await bench.serve_recording([OK])
    header = {"Content-Length": ["5"], "Transfer-Encoding": ["chunked"], "Connection": ["keep-alive"]}
    await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/", header=header))
    assert b"keep-alive" not in requests[0]
    assert b"chunked" not in requests[0]
    assert b"Content-Length" not in requests[0]


async def test_header_values_are_trimmed_and_may_hold_any_letter(bench: Bench) -> None:
    port, requests = await bench.serve_recording([OK])
    header = {"X-Name": [" é "], "User-Agent": [" mine "]}
    result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/", header=header))
    assert result.status is CheckStatus.PASSING
    assert b"User-Agent: mine\r\n" in requests[0]
    assert b"X-Name: \xc3\xa9\r\n" in requests[0]


async def test_user_and_password_become_basic_authentication(bench: Bench) -> None:
    port, requests = await bench.serve_recording([OK])
    await bench.run(CheckDefinition(http=f"http://user:pa%20ss@127.0.0.1:{port}/a%20b"))
    assert b"Authorization: Basic dXNlcjpwYSBzcw==\r\n" in requests[0]
    assert requests[0].startswith(b"GET /a%20b HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("answer", "status", "output"),
    [
        (OK, CheckStatus.PASSING, "200 OK Output: ok"),
        (b"HTTP/1.1 299 Splendid thing\r\n\r\nhi", CheckStatus.PASSING, "299 Splendid thing Output: hi"),
        (
            b"HTTP/1.1 429 Too Many Requests\r\n\r\nslow",
            CheckStatus.WARNING,
            "429 Too Many Requests Output: slow",
        ),
        (
            b"HTTP/1.1 500 Internal Server Error\r\n\r\noops",
            CheckStatus.CRITICAL,
            "500 Internal Server Error Output: oops",
        ),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", CheckStatus.CRITICAL, "304 Not Modified Output: "),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", CheckStatus.PASSING, "200 Output: "),
        (b"HTTP/1.0 200 OK\r\n\r\nold", CheckStatus.PASSING, "200 OK Output: old"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            CheckStatus.PASSING,
            "200 OK Output: abc",
        ),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            CheckStatus.PASSING,
            "204 No Content Output: ",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n\xff\xe9 tail", CheckStatus.PASSING, "200 OK Output: \ufffd\ufffd tail"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", CheckStatus.PASSING, "200 OK Output: abc"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
            CheckStatus.PASSING,
            "200 OK Output: ",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nabcde",
            CheckStatus.PASSING,
            "200 OK Output: ",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"hello"),
            CheckStatus.PASSING,
            "200 OK Output: hello",
        ),
    ],
)
async def test_status_line_decides_and_the_body_is_the_output(
    bench: Bench, answer: bytes, status: CheckStatus, output: str
) -> None:
    port = await bench.serve_answer(answer)
    result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/p"))
    assert (result.status, result.output) == (status, f"HTTP GET http://127.0.0.1:{port}/p: {output}")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "EOF"),
        (b"HTTP/1.1 200 OK\r\nFoo: ", "net/http: HTTP/1.x transport connection broken: unexpected EOF"),
        (
            b"HTTP/1.1 abc foo\r\n\r\n",
            (
                "net/http: HTTP/1.x transport connection broken: malformed HTTP response: "
                'illegal status line: "HTTP/1.1 abc foo"'
            ),
        ),
        (
            b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000,
            (
                "net/http: HTTP/1.x transport connection broken: "
                "net/http: server response headers exceeded 65536 bytes; aborted"
            ),
        ),
        (
            b"HTTP/1.1 100 Continue\r\n\r\n" * 3000,
            (
                "net/http: HTTP/1.x transport connection broken: "
                "net/http: server response headers exceeded 65536 bytes; aborted"
            ),
        ),
        (b"HTTP/1.1 302 Found\r\n\r\n", "302 response missing Location header"),
        (FOUND % b"file:///etc/passwd", None),
        (
            FOUND % b"http://[::1",
            'failed to parse Location header "http://[::1": parse "http://[::1": missing \']\' in host',
        ),
    ],
)
async def test_broken_answers_are_critical_with_gos_text(
    bench: Bench, answer: bytes, reason: str | None
) -> None:
    port = await bench.serve_answer(answer)
    result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/p"))
    assert result.status is CheckStatus.CRITICAL
    if reason is None:
        assert result.output == 'Get "file:///etc/passwd": unsupported protocol scheme "file"'
    else:
        assert result.output == f'Get "http://127.0.0.1:{port}/p": {reason}'


@pytest.mark.parametrize(
    ("definition", "output"),
    [
        (
            CheckDefinition(http="http://127.0.0.1:abc/p"),
            'parse "http://127.0.0.1:abc/p": invalid port ":abc" after host',
        ),
        (
            CheckDefinition(http="ftp://127.0.0.1/p"),
            'Get "ftp://127.0.0.1/p": unsupported protocol scheme "ftp"',
        ),
        (CheckDefinition(http="http:///p"), 'Get "http:///p": http: no Host in request URL'),
        (
            CheckDefinition(http="http://127.0.0.1:99999/p"),
            'Get "http://127.0.0.1:99999/p": dial tcp: address 99999: invalid port',
        ),
        (CheckDefinition(http="http://127.0.0.1:1/p", method="GE T"), 'net/http: invalid method "GE T"'),
        (
            CheckDefinition(http="http://127.0.0.1:1/p", header={"Bad Name": ["x"]}),
            'Get "http://127.0.0.1:1/p": net/http: invalid header field name "Bad Name"',
        ),
        (
            CheckDefinition(http="http://127.0.0.1:1/p", header={"Good": ["x\r\ny: z"]}),
            'Get "http://127.0.0.1:1/p": net/http: invalid header field value for "Good"',
        ),
    ],
)
async def test_unusable_definitions_are_critical_with_gos_text(
    bench: Bench, definition: CheckDefinition, output: str
) -> None:
    result = await bench.run(definition)
    assert (result.status, result.output) == (CheckStatus.CRITICAL, output)


async def test_broken_connections_name_no_port_of_ours(bench: Bench) -> None:
    """Consul's output names it, and is another one on every run."""

    async def reset(stream: trio.abc.Stream) -> None:
        await read_head(stream)
        assert isinstance(stream, trio.SocketStream)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    definition = CheckDefinition(http=f"http://127.0.0.1:{await bench.serve(reset)}/")
    first, second = await bench.run(definition), await bench.run(definition)
    assert "connection reset by peer" in first.output
    assert first == second


async def test_refused_connection_hides_the_password(bench: Bench, refusing_port: int) -> None:
    result = await bench.run(CheckDefinition(http=f"http://user:secret@127.0.0.1:{refusing_port}/p"))
    at = f"127.0.0.1:{refusing_port}"
    assert result.output == f'Get "http://user:***@{at}/p": dial tcp {at}: connect: connection refused'


@pytest.mark.parametrize("code", [200, 429, 500])
async def test_answered_checks_hide_the_password(bench: Bench, code: int) -> None:
    port = await bench.serve_answer(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\nok" % code)
    result = await bench.run(CheckDefinition(http=f"http://user:hunter2@127.0.0.1:{port}/p"))
    assert result.output == f"HTTP GET http://user:***@127.0.0.1:{port}/p: {code} X Output: ok"


@pytest.mark.parametrize(
    ("location", "output"),
    [
        (b"ftp://user:hunter2@h/", 'Get "ftp://user:***@h/": unsupported protocol scheme "ftp"'),
        (
            b"http://user:hun/ter2@h/",
            (
                'Get "http://127.0.0.1:PORT/": failed to parse Location header "http://user:***@h/": '
                'parse "http://user:***@h/": invalid port "***" after host'
            ),
        ),
    ],
)
async def test_redirects_hide_the_password(bench: Bench, location: bytes, output: str) -> None:
    port = await bench.serve_answer(FOUND % location)
    result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/"))
    assert result.output == output.replace("PORT", str(port))


async def test_redirects_in_circles_hide_the_password(bench: Bench) -> None:
    ports: list[int] = []

    async def handler(stream: trio.abc.Stream) -> None:
        await read_head(stream)
        await stream.send_all(FOUND % b"http://user:hunter2@127.0.0.1:%d/" % ports[0])

    ports.append(await bench.serve(handler))
    result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{ports[0]}/"))
    assert result.output == f'Get "http://user:***@127.0.0.1:{ports[0]}/": stopped after 10 redirects'


async def test_ipv6_literal_is_dialled(bench: Bench) -> None:
    listeners = await trio.open_tcp_listeners(0, host="::1")
    port = listeners[0].socket.getsockname()[1]

    async def answer(stream: trio.SocketStream) -> None:
        await read_head(stream)
        await stream.send_all(OK)

    await bench.nursery.start(trio.serve_listeners, answer, listeners)
    result = await bench.run(CheckDefinition(http=f"http://[::1]:{port}/"))
    assert result.output == f"HTTP GET http://[::1]:{port}/: 200 OK Output: ok"


async def test_name_is_resolved_and_its_addresses_tried(bench: Bench) -> None:
    port = await bench.serve_answer(OK)
    result = await bench.run(CheckDefinition(http=f"http://localhost:{port}/"))
    assert result.status is CheckStatus.PASSING


async def test_silent_target_is_critical_at_the_deadline(bench: Bench) -> None:
    port = await bench.serve(hang)
    result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/p", timeout_ns=SOON_NS))
    reason = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert (result.status, result.output) == (
        CheckStatus.CRITICAL,
        f'Get "http://127.0.0.1:{port}/p": {reason}',
    )
    assert bench.counters.timeouts == 1


async def test_header_that_trickles_for_ever_is_critical_at_the_deadline(bench: Bench) -> None:
    async def trickle(stream: trio.abc.Stream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            await stream.send_all(b"x")
            await trio.sleep(0.001)

    port = await bench.serve(trickle)
    result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/p", timeout_ns=SOON_NS))
    assert result.output.endswith("(Client.Timeout exceeded while awaiting headers)")


async def test_body_that_never_ends_does_not_undo_the_status(
    bench: Bench, mock_clock: trio.testing.MockClock
) -> None:
    """As Consul: what was read when the time was up is the output."""

    async def never_end(stream: trio.abc.Stream) -> None:
        await read_head(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\nstart")
        sent.set()
        await trio.sleep_forever()

    sent = trio.Event()
    port = await bench.serve(never_end)
    definition = CheckDefinition(http=f"http://127.0.0.1:{port}/")
    result = await bench.run_past_its_deadline(definition, mock_clock, sent.wait)
    assert result.output == f"HTTP GET http://127.0.0.1:{port}/: 200 OK Output: start"
    assert result.status is CheckStatus.PASSING


async def test_flood_is_cut_after_the_limit_long_before_the_deadline(bench: Bench) -> None:
    sent = 0

    async def flood(stream: trio.abc.Stream) -> None:
        nonlocal sent
        await read_head(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await stream.send_all(b"x" * 65536)
            sent += 65536

    port = await bench.serve(flood)
    result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/"))
    assert result.output == f"HTTP GET http://127.0.0.1:{port}/: 200 OK Output: {'x' * 4096}"
    assert (bench.counters.bodies_cut, bench.counters.timeouts) == (1, 0)
    assert sent < 20 * BODY_BYTES_MAX  # the rest is in the kernel's buffers


async def test_flood_of_tiny_chunks_is_cut_long_before_the_deadline(bench: Bench) -> None:
    async def flood(stream: trio.abc.Stream) -> None:
        await read_head(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await stream.send_all(b"1\r\nx\r\n" * 1000)

    port = await bench.serve(flood)
    result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/"))
    assert result.output == f"HTTP GET http://127.0.0.1:{port}/: 200 OK Output: {'x' * BODY_PIECES_MAX}"
    assert (bench.counters.bodies_cut, bench.counters.timeouts) == (1, 0)


async def test_gzip_bomb_is_cut_at_its_decoded_size(bench: Bench) -> None:
    bomb = gzip.compress(bytes(50 * BODY_BYTES_MAX))
    port = await bench.serve_answer(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + bomb)
    result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/", output_max_size=3))
    assert result.output == f"HTTP GET http://127.0.0.1:{port}/: 200 OK Output: \0\0\0"
    assert bench.counters.bodies_cut == 1


async def test_compression_the_definition_asked_for_is_left_alone(bench: Bench) -> None:
    port = await bench.serve_answer(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nraw")
    header = {"Accept-Encoding": ["gzip"]}
    result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/", header=header))
    assert result.output.endswith("Output: raw")


@pytest.mark.parametrize(
    ("asked", "agent", "kept"), [(4096, 4096, 4096), (10, 4096, 10), (4096, 20, 20), (0, 30, 30)]
)
async def test_last_bytes_of_the_body_are_kept(bench: Bench, asked: int, agent: int, kept: int) -> None:
    body = b"".join(b"%08d" % number for number in range(1000))
    port = await bench.serve_answer(b"HTTP/1.1 200 OK\r\n\r\n" + body)
    definition = CheckDefinition(http=f"http://127.0.0.1:{port}/", output_max_size=asked)
    result = await bench.run(definition, Options(output_bytes_max=agent))
    assert result.output.partition("Output: ")[2] == body[-kept:].decode()


async def test_get_redirect_carries_headers_but_no_secrets_to_another_host(bench: Bench) -> None:
    target, requests = await bench.serve_recording([OK])
    port = await bench.serve_answer(FOUND % b"http://127.0.0.1:%d/x?y" % target)
    header = {"X-Keep": ["1"], "Authorization": ["secret"], "Cookie": ["secret"], "Host": ["my.host"]}
    definition = CheckDefinition(http=f"http://127.0.0.1:{port}/p", method="POST", body="abc", header=header)
    result = await bench.run(definition)
    assert result.output == f"HTTP POST http://127.0.0.1:{port}/p: 200 OK Output: ok"
    assert requests == [
        b"GET /x?y HTTP/1.1\r\n"
        b"Host: 127.0.0.1:%d\r\n"
        b"User-Agent: Consul Health Check\r\n"
        b"Accept: text/plain, text/*, */*\r\n"
        b"Referer: http://127.0.0.1:%d/p\r\n"
        b"X-Keep: 1\r\n"
        b"Accept-Encoding: gzip\r\n"
        b"Connection: close\r\n\r\n" % (target, port)
    ]


async def test_temporary_redirect_keeps_method_and_body(bench: Bench) -> None:
    target, requests = await bench.serve_recording([OK])
    port = await bench.serve_answer(
        b"HTTP/1.1 307 Temporary\r\nLocation: http://127.0.0.1:%d/\r\n\r\n" % target
    )
    await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/p", method="PUT", body="abc"))
    assert requests[0].startswith(b"PUT / HTTP/1.1\r\n")
    assert requests[0].endswith(b"\r\n\r\nabc")


async def test_relative_redirect_keeps_host_and_credentials(bench: Bench) -> None:
    port, requests = await bench.serve_recording([FOUND % b"other?z", OK])
    header = {"Host": ["my.host"]}
    await bench.run(CheckDefinition(http=f"http://u:p@127.0.0.1:{port}/a/b", header=header))
    assert requests[1].startswith(b"GET /a/other?z HTTP/1.1\r\nHost: my.host\r\n")
    assert b"Authorization: Basic dTpw\r\n" in requests[1]
    assert b"Referer: http://127.0.0.1:%d/a/b\r\n" % port in requests[1]


async def test_redirects_in_circles_stop_after_ten(bench: Bench) -> None:
    port, requests = await bench.serve_recording([FOUND % b"/again"])
    result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/p", method="POST"))
    assert (result.status, result.output) == (
        CheckStatus.CRITICAL,
        'Post "/again": stopped after 10 redirects',
    )
    assert len(requests) == 10


async def test_disabled_redirects_judge_the_redirect_itself(bench: Bench) -> None:
    port = await bench.serve_answer(FOUND % b"/again")
    definition = CheckDefinition(http=f"http://127.0.0.1:{port}/p", disable_redirects=True)
    result = await bench.run(definition)
    assert result.status is CheckStatus.CRITICAL
    assert result.output == f"HTTP GET http://127.0.0.1:{port}/p: 302 Found Output: moved"


async def test_redirect_from_http_to_https_is_followed(bench: Bench, server_tls: ssl.SSLContext) -> None:
    target = await bench.serve_answer(OK, server_tls)
    port = await bench.serve_answer(FOUND % b"https://127.0.0.1:%d/" % target)
    definition = CheckDefinition(http=f"http://127.0.0.1:{port}/", tls_skip_verify=True)
    assert (await bench.run(definition)).status is CheckStatus.PASSING


@pytest.fixture(scope="module")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "web.test").configure_cert(context)
    return context


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This host trusts the authority of the tests."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))


async def test_unknown_authority_is_critical_unless_skipped(bench: Bench, server_tls: ssl.SSLContext) -> None:
    port = await bench.serve_answer(OK, server_tls)
    url = f"https://127.0.0.1:{port}/p"
    verified = await bench.run(CheckDefinition(http=url))
    assert verified.output == f'Get "{url}": x509: certificate signed by unknown authority'
    assert (await bench.run(CheckDefinition(http=url, tls_skip_verify=True))).status is CheckStatus.PASSING


@pytest.mark.usefixtures("trusted")
async def test_trusted_authority_passes_and_the_name_is_checked(
    bench: Bench, server_tls: ssl.SSLContext
) -> None:
    port = await bench.serve_answer(OK, server_tls)
    url = f"https://127.0.0.1:{port}/p"
    assert (await bench.run(CheckDefinition(http=url))).status is CheckStatus.PASSING
    named = CheckDefinition(http=url, tls_server_name="web.test")
    assert (await bench.run(named)).status is CheckStatus.PASSING
    misnamed = CheckDefinition(http=url, tls_server_name="foo.test")
    result = await bench.run(misnamed)
    assert result.output == f'Get "{url}": x509: certificate is not valid for foo.test'


async def test_https_to_a_plain_server_says_so(bench: Bench) -> None:
    async def speak_plainly(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    port = await bench.serve(speak_plainly)
    result = await bench.run(CheckDefinition(http=f"https://127.0.0.1:{port}/"))
    reason = "tls: first record does not look like a TLS handshake"
    assert result.output == f'Get "https://127.0.0.1:{port}/": {reason}'


async def test_http_goes_through_the_proxy_with_the_whole_url(bench: Bench) -> None:
    port, requests = await bench.serve_recording([OK])
    options = Options(environ={"HTTP_PROXY": f"http://u:p@127.0.0.1:{port}"})
    result = await bench.run(CheckDefinition(http="http://web.invalid:81/p"), options)
    assert result.status is CheckStatus.PASSING
    assert requests[0].startswith(b"GET http://web.invalid:81/p HTTP/1.1\r\nHost: web.invalid:81\r\n")
    assert b"Proxy-Authorization: Basic dTpw\r\n" in requests[0]


@pytest.mark.usefixtures("trusted")
async def test_https_goes_through_a_tunnel(bench: Bench, server_tls: ssl.SSLContext) -> None:
    async def proxy(stream: trio.abc.Stream) -> None:
        heads.append(await read_head(stream))
        await stream.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        secured = trio.SSLStream(stream, server_tls, server_side=True, https_compatible=True)
        await read_head(secured)
        await secured.send_all(OK)

    heads: list[bytes] = []
    port = await bench.serve(proxy)
    options = Options(environ={"https_proxy": f"127.0.0.1:{port}"})
    result = await bench.run(CheckDefinition(http="https://web.test/p"), options)
    assert result.output == "HTTP GET https://web.test/p: 200 OK Output: ok"
    assert heads[0].startswith(b"CONNECT web.test:443 HTTP/1.1\r\n")


async def test_refused_tunnel_is_critical(bench: Bench) -> None:
    port = await bench.serve_answer(b"HTTP/1.1 403 Forbidden\r\n\r\n")
    options = Options(environ={"HTTPS_PROXY": f"127.0.0.1:{port}"})
    result = await bench.run(CheckDefinition(http="https://web.test/p"), options)
    assert result.output == 'Get "https://web.test/p": proxyconnect tcp: 403 Forbidden'


async def test_random_bytes_are_always_critical_or_passing_and_never_an_internal_error(bench: Bench) -> None:
    for seed in range(40):
        noise = b"HTTP/1.1 200 OK\r\n" * (seed % 2) + bytes((seed * 37 + n * n) % 256 for n in range(300))
        port = await bench.serve_answer(noise)
        result = await bench.run(CheckDefinition(http=f"http://127.0.0.1:{port}/"))
        assert re.match(r'Get "http|HTTP GET', result.output)
    assert bench.counters.internal_errors == 0
