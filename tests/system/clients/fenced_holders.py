"""Holders of locks that write under their fencing token when they are told to; they are stopped meanwhile.

    fenced_holders.py PORT COUNT

Takes that many locks, says so in a line, and for each line on its standard input writes once under every
lock: with the token, and without it to another key. It prints how many writes of each were done.
"""

from __future__ import annotations

import http.client
import json
import sys


def main(port: int, count: int) -> None:
    door = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def put(target: str, body: bytes = b"") -> tuple[int, str, bytes]:
        door.request("PUT", target, body)
        answer = door.getresponse()
        return answer.status, answer.headers.get("X-Adsum-Fencing-Token", ""), answer.read()

    tokens = []
    for number in range(count):
        wanted = json.dumps({"TTL": "2s", "LockDelay": "0s", "NodeChecks": []}).encode()
        session = json.loads(put("/v1/session/create", wanted)[2])["ID"]
        status, token, body = put(f"/v1/kv/lock/{number}?acquire={session}")
        assert (status, body) == (200, b"true"), body
        tokens.append(token)
    print("held", flush=True)
    for _line in sys.stdin:
        fenced = [
            put(f"/v1/kv/lock/{number}?if-token={token}", b"late") for number, token in enumerate(tokens)
        ]
        plain = [put(f"/v1/kv/plain/{number}", b"late") for number in range(count)]
        done = [
            sum(status == 200 and body == b"true" for status, _, body in each) for each in (fenced, plain)
        ]
        print(json.dumps(done), flush=True)


main(int(sys.argv[1]), int(sys.argv[2]))
