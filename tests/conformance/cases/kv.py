"""Keys: statuses, headers, bodies, and what moves an index, on one server."""

from __future__ import annotations

from dataclasses import replace

from tests.conformance.case import INDEX_OF_KEY, Case, Family, Look, Request, Watch, get, put, send
from tests.conformance.cases.methods import PLAIN

KV = "/v1/kv/"
VALUE_BYTES_MAX = 512 * 1024
EMPTY = (send("DELETE", KV + "?recurse"),)
ONE = (*EMPTY, put(KV + "a", "bar"))
TREE = (*EMPTY, *(put(KV + key, "1") for key in ("a/", "a/b/c", "a/b/d", "a/e", "z")))
UNKNOWN_SESSION = "6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01"
STATUS_ONLY = Look(only=("status",))
# The text names a page of Consul's own site there.
TOO_LARGE = Look(ignore=("body",))
WAIT_MS = 500


def key(name: str, *ask: Request, given: tuple[Request, ...] = ONE) -> Case:
    return Case(f"kv: {name}", ask, given)


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


READ = tuple(
    key(f"GET {what}", get(KV + what), given=TREE)
    for what in (
        "a/b/c", "a/b/c?raw", "a/b/c?pretty", "a/b/c?raw&pretty", "a/b/c?recurse&raw", "a/b/c?keys&raw",
        "a/?recurse", "a/?recurse=false", "a?recurse", "a/b?recurse", "?recurse", "a/?keys", "a/?keys=false",
        "a/?keys&recurse", "?keys", "?keys&separator=/", "a?keys&separator=/", "a/?keys&separator=/",
        "a/?keys&seperator=/", "a/?keys&separator=", "a/?keys&separator=b/", "a/?keys&separator=zz",
        "?keys&separator=b/c", "a/b/c?separator=/", "none", "none?raw", "none?keys", "none?recurse",
        "none?recurse&raw", "a/b", "", "?raw", "?stale", "A/B/C",
    )
)  # fmt: skip
READ_NOTHING = (
    key("names of an empty store", get(KV + "?keys"), get(KV + "?keys&separator=/"), given=EMPTY),
    key("all of an empty store", get(KV + "?recurse"), given=EMPTY),
    key("without the last slash", get("/v1/kv?keys"), get("/v1/kv"), put("/v1/kv", "1"), given=EMPTY),
)

HOW = tuple(
    key(f"GET with {how}", get(f"{KV}a?{how}"))
    for how in (
        "dc=dc1", "dc=", "dc=zz", "dc=DC1", "stale", "stale=false", "consistent", "stale&consistent",
        "cached", "cached&consistent", "leader", "max_stale=1s", "max_stale=zz", "max_stale=1s&consistent",
        "ns=", "ns=default", "ns=x", "index=0", "index=", "index=x", "index=-1", "index=1",
        "index=99999999999999999999", "wait=10", "wait=x", "wait=1s", "wait=", "index=1&wait=x", "token=x",
        "note=", "flags=x", "cas=x", "acquire=x", "raw=0",
    )
) + tuple(
    key(f"PUT with {how}", put(f"{KV}a?{how}", "new"), get(KV + "a"))
    for how in (
        "dc=dc1", "dc=zz", "stale", "consistent", "stale&consistent", "cached", "max_stale=x", "index=x",
        "wait=x", "ns=x", "ns=default", "recurse", "keys", "raw", "pretty", "token=x",
    )
) + tuple(
    key(f"DELETE with {how}", send("DELETE", f"{KV}a?{how}"), get(KV + "a"))
    for how in (
        "dc=dc1", "dc=zz", "stale&consistent", "index=x", "wait=x", "flags=x", "raw", "keys", "pretty",
        "acquire=1", "release=1",
    )
)  # fmt: skip

NUMBERS = tuple(
    key(f"PUT flags={flags}", put(f"{KV}a?flags={flags}", "bar"), get(KV + "a"))
    for flags in (
        "", "0", "42", "007", "x", "-1", "+1", "%2B1", "%201", "0x10", "1_0", "1.0", "1e3",
        "9223372036854775808", "18446744073709551615", "18446744073709551616", "1&flags=2",
    )
) + tuple(
    key(f"{method} {name}?cas={cas}", send(method, f"{KV}{name}?cas={cas}", body), get(KV + name))
    for method, body in (("PUT", "new"), ("DELETE", None))
    for name in ("a", "none")
    for cas in (
        "", "0", "00", "1", "x", "-1", "0&cas=1", "18446744073709551615", "18446744073709551616",
        INDEX_OF_KEY.format("a"),
    )
)  # fmt: skip

FLAGS = "?flags=18446744073709551615"
WRITES = (
    key("put and get", put(KV + "foo", "bar"), get(KV + "foo"), given=EMPTY),
    key("a plain put resets the flags", put(f"{KV}a{FLAGS}", "bar"), put(KV + "a", "bar"), get(KV + "a")),
    key("an empty value", put(KV + "a", ""), get(KV + "a"), get(KV + "a?raw"), get(KV + "a?recurse")),
    key("no body", Request("PUT", KV + "a"), get(KV + "a")),
    key("a value of all bytes", put(KV + "a", bytes(range(256))), get(KV + "a"), get(KV + "a?raw")),
    key("a body that says it is JSON", put(KV + "a", '{"a": 1}', Content_Type="application/json")),
    key("Expect: 100-continue", put(KV + "a", "new", Expect="100-continue"), get(KV + "a")),
    key("a GET with a body", send("GET", KV + "a", "x")),
    key("a DELETE with a body", send("DELETE", KV + "a", "x"), get(KV + "a")),
    key("delete what is not there", send("DELETE", KV + "none")),
    key("delete one and not what is below", send("DELETE", KV + "a/b"), get(KV + "?keys"), given=TREE),
    key("delete a tree", send("DELETE", KV + "a/b?recurse"), get(KV + "?keys"), given=TREE),
    key("delete no tree", send("DELETE", KV + "none?recurse"), given=TREE),
    key("delete all", send("DELETE", KV + "?recurse"), get(KV + "?keys"), given=TREE),
    key("no name", put(KV, "1"), put(KV + "?cas=0", "1"), send("DELETE", KV), send("DELETE", KV + "?cas=1")),
)
CONFLICTS = tuple(
    key(f"conflicting: {method} {flags}", send(method, f"{KV}a?{flags}", body), get(KV + "a"))
    for method, body, flags in (
        ("PUT", "new", "cas=1&acquire=2"),
        ("PUT", "new", "cas&release"),
        ("PUT", "new", "release=%20x%26&acquire=1"),
        ("PUT", "new", "cas=1&acquire=2&release=3"),
        ("PUT", "new", "cas=x&flags=y"),
        ("DELETE", None, "recurse&cas=1"),
        ("DELETE", None, "recurse=&cas"),
        ("DELETE", None, "acquire=1&cas=1"),
    )
)

SIZES = tuple(
    key(f"a value of {size} bytes", put(KV + "a", b"x" * size, look=TOO_LARGE), get(KV + "a?raw"))
    for size in (VALUE_BYTES_MAX - 1, VALUE_BYTES_MAX, VALUE_BYTES_MAX + 1, 2 * VALUE_BYTES_MAX + 1)
) + tuple(
    key(
        f"a value of {size} bytes in chunks",
        Request("PUT", KV + "a", chunked(b"x" * size), (("Transfer-Encoding", "chunked"),)),
        get(KV + "a?raw"),
    )
    for size in (0, 3, VALUE_BYTES_MAX, VALUE_BYTES_MAX + 1)
)
SIZE_AND_MORE = (
    key("too large, and bad flags", put(KV + "a?flags=x", b"x" * (VALUE_BYTES_MAX + 1))),
    key("too large for a comparison", put(KV + "a?cas=0", b"x" * (VALUE_BYTES_MAX + 1), look=TOO_LARGE)),
    key("a large value gzipped", put(KV + "a", b"x" * 5_000), get(KV + "a", Accept_Encoding="gzip")),
    key("a small value gzipped", get(KV + "a?raw", Accept_Encoding="gzip")),
)

# Every byte, and what is special in a path.
NAMES = tuple(
    key(
        f"named {shown}",
        put(KV + name, "1"),
        get(KV + name),
        get(KV + name + "?raw"),
        get(KV + name + "?keys"),
        send("DELETE", KV + name),
        given=EMPTY,
    )
    for shown, name in (
        *((name, name) for name in (
            "%20a", "a%20", "a%20b", "a+b", "a%2Bb", "a/b/", "a:b", "a;b", "a=b", "a&b", "a%26b", "a%3Fb",
            "a%23b", "a%25b", "a%2525b", "a%2Fb", "a%2F", "a,b", "a@b", "a!b", "~a", "a'b", "a%22b", "a%5Cb",
            "a%3Cb%3E", "a|b", "a%5B1%5D", "w%C3%A9b", "%E2%82%AC", "%F0%9F%98%80", "%EF%BF%BD",
            "raw", "keys", "a.b", "a..b", "...", ".a", "a.", "none%3Fkeys",
        )),
        ("of 255 letters", "k" * 255),
        ("of 4096 letters", "k" * 4096),
        ("of 12000 letters", "k" * 12_000),
    )
)  # fmt: skip
BAD_NAMES = tuple(
    key(f"badly named {name}", put(KV + name, "1"), get(KV + name), given=EMPTY)
    for name in ("a%zz", "a%", "a%2", "a%2Gb")
)
# What Consul cleans, refuses, or shows as something else.
TAKEN_AS_THEY_ARE = tuple(
    key(f"taken as it is: {name}", put(KV + name, "1"), get(KV + name), get(KV + "?keys"), given=EMPTY)
    for name in (
        "a//b", "/a", "//", "a//", "a/../b", "..", "../x", "a/..", "a/.", "./a", "%2E%2E/x", "a%2F%2Fb",
        "%2F",
    )
) + tuple(
    key(f"does not print: {name}", put(KV + name, "1"), get(KV + name), get(KV + "?keys"), given=EMPTY)
    for name in (
        "a%01b", "a%00b", "a%0Ab", "a%7F", "a%C2%85b", "a%C2%A0b", "a%E2%80%8Bb", "a%E2%80%A8b", "%EF%BB%BFa",
    )
)  # fmt: skip
ODDER = (
    key("not UTF-8", put(KV + "a%FF", "1"), get(KV + "a%FF"), get(KV + "?keys"), given=EMPTY),
    key("not UTF-8, twice", put(KV + "a%FF", "1"), put(KV + "a%FE", "2"), get(KV + "a%FE?raw"), given=EMPTY),
    key("a surrogate", put(KV + "a%ED%A0%80", "1"), get(KV + "a%ED%A0%80?raw"), given=EMPTY),
    key("too long a name", put(KV + "k" * 20_000, "1", look=STATUS_ONLY), given=EMPTY),
)

METHODS = tuple(
    key(f"{method} {what or 'without a name'}", send(method, KV + what))
    for method in ("HEAD", "OPTIONS", "POST", "PATCH", "TRACE")
    for what in ("a", "none", "", "?keys")
)
UNKNOWN_METHOD = key("an unknown method", send("BOGUS", KV + "a"))

LOCKS = tuple(
    key(f"PUT {how}", put(f"{KV}a?{how}", "new"), get(KV + "a"))
    for how in (
        f"acquire={UNKNOWN_SESSION}",
        "acquire=x",
        "acquire=",
        f"release={UNKNOWN_SESSION}",
        "release=x",
        "release=",
    )
)

LAYOUT = tuple(
    replace(key(f"layout of {each.method} {each.target}", each), setting=PLAIN)
    for each in (
        get(KV + "a"),
        get(KV + "a?pretty"),
        get(KV + "?keys"),
        get(KV + "?keys&pretty"),
        get(KV + "?recurse&pretty=false"),
        get(KV + "a?raw&pretty"),
        put(KV + "a", "2"),
        put(KV + "a?pretty", "3"),
        put(KV + "a?cas=0&pretty", "3"),
        send("DELETE", KV + "b"),
        send("DELETE", KV + "b?pretty"),
    )
)

FAMILY = Family(
    "keys",
    (
        *READ,
        *READ_NOTHING,
        *HOW,
        *NUMBERS,
        *WRITES,
        *CONFLICTS,
        *SIZES,
        *SIZE_AND_MORE,
        *NAMES,
        *BAD_NAMES,
        *TAKEN_AS_THEY_ARE,
        *ODDER,
        *METHODS,
        UNKNOWN_METHOD,
        *LOCKS,
        *LAYOUT,
    ),
)

# Waiting, and what moves an index.

WATCHED = ("a/e", "a/none", "a/?recurse", "a/?keys", "a/?keys&separator=/", "none/?recurse", "?keys", "zz")
CHANGES = (
    ("the same value again", (put(KV + "a/e", "1"),)),
    ("a new value", (put(KV + "a/e", "2"),)),
    ("new flags", (put(KV + "a/e?flags=1", "1"),)),
    ("a comparison that fails", (put(KV + "a/e?cas=0", "2"),)),
    ("a deletion", (send("DELETE", KV + "a/e"),)),
    ("a deletion of nothing", (send("DELETE", KV + "a/zz"),)),
    ("a deletion whose comparison fails", (send("DELETE", KV + "a/e?cas=0"),)),
    ("a key beside it", (put(KV + "a/f", "1"),)),
    ("a key elsewhere", (put(KV + "y", "1"),)),
    ("the end of its tree", (send("DELETE", KV + "a/?recurse"),)),
    ("the end of no tree", (send("DELETE", KV + "none?recurse"),)),
    ("its creation", (put(KV + "a/none", "1"),)),
    ("a creation below none", (put(KV + "none/a", "1"),)),
)
WAKES = tuple(
    Case(f"wait for {target or 'all'} on {why}", (Watch(KV + target, change, WAIT_MS),), TREE)
    for target in WATCHED
    for why, change in CHANGES
)
ENDS = tuple(
    Case(f"wait for {target or 'all'} to its end", (Watch(KV + target, wait_ms=WAIT_MS, body=True),), TREE)
    for target in ("a/e", "a/none", "a/?recurse", "a/?keys", "none/?recurse", "?keys", "a/e?raw", "a/e?stale")
)
MORE = (
    Case("wait a second and a half for a/e", (Watch(KV + "a/e", wait_ms=1_500),), TREE),
    Case("wait for an index to come, of a/e", (Watch(KV + "a/e", ahead=1_000, wait_ms=900),), TREE),
    Case("wait for an index to come, of a/?recurse", (Watch(KV + "a/?recurse", ahead=9, wait_ms=900),), TREE),
    Case("wait for an index to come, for long", (Watch(KV + "a/e", ahead=1_000, wait_ms=2_500),), TREE),
    Case("wait, and see the last key go", (Watch(KV + "z", (send("DELETE", KV + "z"),), body=True),), TREE),
    Case("wait, and see a new value", (Watch(KV + "z", (put(KV + "z", "new"),), body=True),), TREE),
    Case("wait for what is there already", (get(KV + "z?index=1&wait=10m"),), TREE),
)
WAITING = Family("waiting for keys", (*WAKES, *ENDS, *MORE))
