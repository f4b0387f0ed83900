"""What the documentation of py-consul and of python-consul2 shows of keys, done with one of them. Run with
the port of an agent; prints what each step returned, as one object of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time

import consul
import consul.aio

SHOWN = ("Flags", "Key", "LockIndex", "Session", "Value")


def main(port: int) -> None:
    client = consul.Consul(host="127.0.0.1", port=port)
    seen: dict[str, object] = {}
    index, data = client.kv.get("foo")
    seen["get what is not there"] = [index is not None, data]
    seen["put"] = client.kv.put("foo", "bar")
    index, data = client.kv.get("foo")
    seen["get"] = {key: plain(value) for key, value in data.items() if key in SHOWN}
    seen["the index is the key's"] = int(index) == data["ModifyIndex"] == data["CreateIndex"]
    seen["put bytes"] = client.kv.put("foo_bytes", b"\x00\xff")
    seen["get bytes"] = list(client.kv.get("foo_bytes")[1]["Value"])
    seen["put nothing"] = [client.kv.put("foo_none", None), client.kv.get("foo_none")[1]["Value"]]
    seen["put text"] = [client.kv.put("foo_é", "ü"), plain(client.kv.get("foo_é")[1]["Value"])]
    seen["flags"] = [client.kv.put("foo_flags", "", flags=50), client.kv.get("foo_flags")[1]["Flags"]]
    seen["keys"] = client.kv.get("foo", keys=True)[1]
    seen["keys of nothing"] = client.kv.get("nothing", keys=True)[1]
    seen["recurse"] = [plain(each["Value"]) for each in client.kv.get("foo", recurse=True)[1]]
    seen["recurse of nothing"] = client.kv.get("nothing", recurse=True)[1]
    for key in ("base/base/foo", "base/foo", "base/next/a"):
        client.kv.put(key, "5")
    seen["separator"] = client.kv.get("base/", keys=True, separator="/")[1]
    consistencies = ("default", "consistent", "stale")
    seen["consistency"] = [
        plain(client.kv.get("foo", consistency=each)[1]["Value"]) for each in consistencies
    ]
    seen["dc"] = plain(client.kv.get("foo", dc="dc1")[1]["Value"])
    seen["token"] = plain(client.kv.get("foo", token="ignored")[1]["Value"])
    seen["cas"] = compared(client)
    seen["poll"] = polled(client)
    seen["wait"] = waited(client)
    seen["asyncio"] = asyncio.run(awaited(port))
    seen["delete"] = [client.kv.delete("foo"), client.kv.get("foo")[1], client.kv.delete("foo")]
    seen["delete a tree"] = [client.kv.delete("base/", recurse=True), client.kv.get("base", keys=True)[1]]
    seen["another datacenter"] = refused(client)
    print(json.dumps(seen))


def plain(value: bytes | None) -> object:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def compared(client: consul.Consul) -> list[bool]:
    """The documentation's own example."""
    results = [client.kv.put("cas", "bar", cas=50), client.kv.put("cas", "bar", cas=0)]
    _index, data = client.kv.get("cas")
    results.append(client.kv.put("cas", "super", cas=data["ModifyIndex"]))
    results.append(client.kv.put("cas", "again", cas=data["ModifyIndex"]))
    _index, data = client.kv.get("cas")
    results.append(client.kv.delete("cas", cas=data["ModifyIndex"] - 1))
    results.append(client.kv.delete("cas", cas=data["ModifyIndex"]))
    return results


def polled(client: consul.Consul) -> list[object]:
    """A key is polled for updates until it says that it was the last one."""
    index, values = client.kv.get("polled")[0], []

    def put() -> None:
        client.kv.put("unrelated", "x")
        client.kv.put("polled", "last")

    threading.Timer(0.2, put).start()
    while "last" not in values:
        index, data = client.kv.get("polled", index=index)
        if data is not None:  # Consul answers for other keys, too, while this one is not there
            values.append(plain(data["Value"]))
    return values


def waited(client: consul.Consul) -> list[object]:
    index, _data = client.kv.get("foo")
    started = time.monotonic()
    after, data = client.kv.get("foo", index=index, wait="500ms")
    return [after == index, plain(data["Value"]), 0.49 <= time.monotonic() - started < 2]


async def awaited(port: int) -> list[object]:
    client = consul.aio.Consul(host="127.0.0.1", port=port)
    index, data = await client.kv.get("foo")
    polling = asyncio.ensure_future(client.kv.get("foo", index=index))
    results = [plain(data["Value"]), await client.kv.put("foo", "new")]
    after, data = await polling
    results += [plain(data["Value"]), int(after) > int(index)]
    if hasattr(client, "close"):
        await client.close()
    return results


def refused(client: consul.Consul) -> list[object]:
    try:
        client.kv.get("foo", dc="zz")
    except consul.ConsulException as error:
        return [type(error).__name__, "No path to datacenter" in str(error)]
    return []


if __name__ == "__main__":
    main(int(sys.argv[1]))
