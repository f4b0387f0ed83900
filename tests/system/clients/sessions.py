"""What the documentation of py-consul and of python-consul2 shows of sessions, locks and transactions, done
with one of them. Run with the port of an agent; prints what each step returned, as one object of JSON."""

from __future__ import annotations

import base64
import json
import sys
import threading
import time

import consul

MISSING = "6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01"


def main(port: int) -> None:
    client = consul.Consul(host="127.0.0.1", port=port)
    seen: dict[str, object] = {}
    first = client.session.create(name="my-session", ttl=20, lock_delay=0, behavior="release")
    second = client.session.create(name="other", checks=["serfHealth"], lock_delay=0)
    _index, info = client.session.info(first)
    seen["info"] = [info["Name"], info["Node"], info["TTL"], info["LockDelay"], info["Behavior"]]
    seen["info of nothing"] = client.session.info(MISSING)[1]
    seen["list"] = sorted(each["Name"] for each in client.session.list()[1])
    seen["node"] = sorted(each["Name"] for each in client.session.node("n1")[1])
    seen["renew"] = client.session.renew(first)["ID"] == first
    seen["renew what is gone"] = failure(lambda: client.session.renew(MISSING))
    seen["acquire"] = [client.kv.put("lock", "one", acquire=each) for each in (first, second, first)]
    seen["holder"] = client.kv.get("lock")[1]["Session"] == first
    seen["release"] = [client.kv.put("lock", "two", release=each) for each in (second, first)]
    seen["acquire what is free"] = client.kv.put("lock", "three", acquire=second)
    seen["unknown session"] = failure(lambda: client.kv.put("lock", "x", acquire=MISSING))
    seen["wait"] = waited(client, second)
    seen["held after its end"] = "Session" in client.kv.get("lock")[1]
    seen["destroy"] = [client.session.destroy(first), client.session.destroy(first)]
    seen["behavior delete"] = deleted(client)
    seen["bad ttl"] = failure(lambda: client.session.create(behavior="release", ttl=20, node="nowhere"))
    seen["txn"] = transacted(client)
    seen["catalog"] = registered(client)
    print(json.dumps(seen))


def failure(work: object) -> str:
    try:
        work()  # type: ignore[operator]
    except consul.ConsulException as error:
        return type(error).__name__
    return ""


def waited(client: consul.Consul, session: str) -> bool:
    """For a session's end."""
    index = client.session.list()[0]
    threading.Timer(0.2, lambda: client.session.destroy(session)).start()
    started_s = time.monotonic()
    _index, listed = client.session.list(index=index, wait="20s")
    return session not in [each["ID"] for each in listed] and time.monotonic() - started_s < 10


def deleted(client: consul.Consul) -> object:
    session = client.session.create(behavior="delete", lock_delay=0)
    client.kv.put("mine", "x", acquire=session)
    client.session.destroy(session)
    return client.kv.get("mine")[1]


def transacted(client: consul.Consul) -> object:
    value = base64.b64encode(b"bar").decode()
    done = client.txn.put(
        [
            {"KV": {"Verb": "set", "Key": "foo", "Value": value, "Flags": 7}},
            {"KV": {"Verb": "get", "Key": "foo"}},
        ]
    )
    failed = failure(lambda: client.txn.put([{"KV": {"Verb": "get", "Key": "nothing"}}]))
    return [[each["KV"]["Value"] for each in done["Results"]], done["Errors"], failed]


def registered(client: consul.Consul) -> object:
    """A node that has no agent."""
    done = client.catalog.register("ext", "10.0.0.1", service={"Service": "db", "Port": 5432})
    nodes = [each["Node"] for each in client.catalog.nodes()[1]]
    found = [(each["Node"], each["ServicePort"]) for each in client.catalog.service("db")[1]]
    gone = client.catalog.deregister("ext")
    return [done, nodes, found, gone, client.catalog.service("db")[1]]


main(int(sys.argv[1]))
