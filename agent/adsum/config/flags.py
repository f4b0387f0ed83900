"""The agent's command line, read into the same tree that a file gives.

One dash or two, `-flag=value` or `-flag value`, and `-flag` alone for yes: as Go takes them, since that is
what existing unit files and scripts hold. argparse cannot be asked: it takes the slip `-htttp-port=1` for
`-h`. All slips are reported at once, each with the nearest flag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from adsum.config.errors import ConfigError, ConfigErrors
from adsum.config.keys import KEYS, Fate, did_you_mean, nearest
from adsum.config.kinds import KeyKind
from adsum.config.sources import ConfigSource
from adsum.frozen import dataclass

# Go's strconv.ParseBool
TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})

INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
PATH_FLAGS = frozenset({"config-file", "config-dir"})
OWN_KEYS = frozenset({"dev", "config_format", "hcl"})  # they have no key that a file could hold


class FlagError(ConfigErrors):
    """The command line cannot be understood; no file was read."""


@dataclass(frozen=True, slots=True)
class ConfigFlag:
    name: str
    key: str  # the configuration key it sets, or its own name
    help: str

    @property
    def kind(self) -> KeyKind:
        if self.key in KEYS:
            return KEYS[self.key].kind
        return {"dev": KeyKind.BOOL, "hcl": KeyKind.TEXTS}.get(self.key, KeyKind.TEXT)

    @property
    def fate(self) -> Fate:
        return KEYS[self.key].fate if self.key in KEYS else Fate.RESTART

    @property
    def takes_value(self) -> bool:
        return self.kind is not KeyKind.BOOL

    @property
    def is_repeatable(self) -> bool:
        return self.kind.is_list or self.kind.is_map or self.name in PATH_FLAGS


AGENT_FLAGS = tuple(
    ConfigFlag(*row)
    for row in [
        ("advertise", "advertise_addr", "Address that other agents reach this one at."),
        ("advertise-wan", "advertise_addr_wan", "The same, from other data centres."),
        ("allow-write-http-from", "http_config.allow_write_http_from", "Network that may write over HTTP."),
        ("alt-domain", "alt_domain", "Second DNS domain to answer."),
        ("bind", "bind_addr", "Address that the other agents' traffic binds to."),
        ("bootstrap", "bootstrap", "Start a cluster with this server as its first."),
        ("bootstrap-expect", "bootstrap_expect", "Number of servers to wait for before the cluster starts."),
        ("check_output_max_size", "check_output_max_size", "Bytes of a check's output that are kept."),
        ("client", "client_addr", "Address that HTTP and DNS bind to."),
        ("config-dir", "config-dir", "Folder of configuration files, read in lexical order."),
        ("config-file", "config-file", "Configuration file: .json, .toml or .hcl."),
        ("config-format", "config_format", "Format of all configuration files, whatever their suffix."),
        ("data-dir", "data_dir", "Folder for what must survive a restart."),
        ("datacenter", "datacenter", "Data centre of this agent."),
        ("default-query-time", "default_query_time", "How long a blocking query waits when it does not say."),
        ("dev", "dev", "One server in memory on loopback, for trying things out."),
        ("disable-host-node-id", "disable_host_node_id", "Do not derive the node's id from the host."),
        ("disable-keyring-file", "disable_keyring_file", "Do not keep the keyring in a file."),
        ("dns-port", "ports.dns", "Port of DNS; -1 disables it."),
        ("domain", "domain", "DNS domain to answer."),
        (
            "enable-local-script-checks",
            "enable_local_script_checks",
            "Run checks that files define as commands.",
        ),
        (
            "enable-script-checks",
            "enable_script_checks",
            "Run commands as checks, from files and from the API.",
        ),
        ("encrypt", "encrypt", "Key that seals the traffic between agents."),
        ("grpc-port", "ports.grpc", "Port of gRPC."),
        ("grpc-tls-port", "ports.grpc_tls", "Port of gRPC over TLS."),
        ("hcl", "hcl", "Configuration as a piece of HCL."),
        ("http-port", "ports.http", "Port of the HTTP API; -1 disables it."),
        ("https-port", "ports.https", "Port of the HTTP API over TLS."),
        ("join", "start_join", "Agent to join at start."),
        ("join-wan", "start_join_wan", "Server of another data centre to join at start."),
        ("log-file", "log_file", "File or folder to log to."),
        ("log-json", "log_json", "Log in JSON."),
        ("log-level", "log_level", "trace, debug, info, warn or error."),
        ("log-rotate-bytes", "log_rotate_bytes", "Size at which a log file is rotated."),
        ("log-rotate-duration", "log_rotate_duration", "Age at which a log file is rotated."),
        ("log-rotate-max-files", "log_rotate_max_files", "Number of old log files that are kept."),
        ("max-query-time", "max_query_time", "The longest that a blocking query may wait."),
        ("node", "node_name", "Name of this node; the host's if not given."),
        ("node-id", "node_id", "UUID of this node; made at the first start if not given."),
        ("node-meta", "node_meta", "A fact about this node, as key:value."),
        ("non-voting-server", "non_voting_server", "A server without a vote."),
        ("pid-file", "pid_file", "File to write the process id to."),
        ("primary-gateway", "primary_gateways", "Gateway of the primary data centre."),
        ("protocol", "protocol", "Protocol version."),
        ("raft-protocol", "raft_protocol", "Raft protocol version."),
        ("recursor", "recursors", "DNS server to ask about all other domains."),
        ("rejoin", "rejoin_after_leave", "Join again after having left."),
        ("retry-interval", "retry_interval", "Pause between attempts to join."),
        ("retry-interval-wan", "retry_interval_wan", "The same, for other data centres."),
        ("retry-join", "retry_join", "Agent to join, again until it works."),
        ("retry-join-wan", "retry_join_wan", "Server of another data centre to join, again until it works."),
        ("retry-max", "retry_max", "Number of attempts to join; 0 never gives up."),
        ("retry-max-wan", "retry_max_wan", "The same, for other data centres."),
        ("segment", "segment", "Network segment of this agent."),
        ("serf-lan-allowed-cidrs", "serf_lan_allowed_cidrs", "Network that members may come from."),
        ("serf-lan-bind", "serf_lan", "Address that gossip binds to."),
        ("serf-lan-port", "ports.serf_lan", "Port of gossip."),
        ("serf-wan-allowed-cidrs", "serf_wan_allowed_cidrs", "Network that servers of others may come from."),
        ("serf-wan-bind", "serf_wan", "Address that gossip between data centres binds to."),
        ("serf-wan-port", "ports.serf_wan", "Port of gossip between data centres."),
        ("server", "server", "Be a server."),
        ("server-port", "ports.server", "Port that servers talk to each other on."),
        ("syslog", "enable_syslog", "Log to syslog as well."),
        ("ui", "ui", "Serve the web page."),
        ("ui-content-path", "ui_content_path", "Path of the web page."),
        ("ui-dir", "ui_dir", "Folder to serve the web page from."),
    ]
)
FLAGS = {flag.name: flag for flag in AGENT_FLAGS}
FLAG_OF_KEY = {flag.key: flag.name for flag in AGENT_FLAGS}


def parse_agent_flags(argv: Sequence[str]) -> tuple[list[str], dict[str, object]]:
    """Paths of files and folders in the order given, and the tree of the rest. Raises `FlagError`."""
    paths: list[str] = []
    tree: dict[str, object] = {}
    errors: list[ConfigError] = []
    for flag, text in _pairs(argv, errors):
        if flag.name in PATH_FLAGS:
            paths.append(text)
        else:
            _set(tree, flag, text, errors)
    if errors:
        raise FlagError(errors)
    return paths, tree


class FlagSource(ConfigSource):
    def place(self, path: str) -> str:
        name = FLAG_OF_KEY.get(path.partition("[")[0])
        return f"flag -{name}" if name else f"flags: {path}"


def flag_source(flags: Mapping[str, object]) -> ConfigSource:
    return FlagSource("flags", {name: value for name, value in flags.items() if name not in OWN_KEYS})


def _pairs(argv: Sequence[str], errors: list[ConfigError]) -> Iterator[tuple[ConfigFlag, str]]:
    """Go stops at the first word that is no flag and refuses it; so do we, but look at the rest too."""
    words = iter(argv)
    for word in words:
        name, has_value, value = word.removeprefix("-").removeprefix("-").partition("=")
        flag = FLAGS.get(name)
        if not word.startswith("-") or word in {"-", "--"}:
            errors.append(ConfigError(word, "is no flag: the agent takes nothing but flags"))
        elif flag is None:
            near = nearest(name, FLAGS)
            meant = did_you_mean(f"-{near}" if near else None)
            errors.append(ConfigError(f"flag -{name}", f"is unknown{meant}"))
        elif has_value or not flag.takes_value:
            yield flag, value if has_value else "true"
        elif (following := next(words, None)) is not None:
            yield flag, following
        else:
            errors.append(ConfigError(f"flag -{name}", "needs a value"))


def _set(tree: dict[str, object], flag: ConfigFlag, text: str, errors: list[ConfigError]) -> None:
    *sections, name = flag.key.split(".")
    for section in sections:
        inner = tree.setdefault(section, {})
        assert isinstance(inner, dict)  # no flag is named like a section
        tree = inner
    match flag.kind:
        case KeyKind.BOOL if text not in TRUE | FALSE:
            errors.append(ConfigError(f"flag -{flag.name}", f'must be true or false, not "{text}"'))
        case KeyKind.BOOL:
            tree[name] = text in TRUE
        case KeyKind.INTEGER | KeyKind.PORT if not INTEGER.fullmatch(text):
            errors.append(ConfigError(f"flag -{flag.name}", f'must be a whole number, not "{text}"'))
        case KeyKind.INTEGER | KeyKind.PORT:
            tree[name] = int(text)
        case KeyKind.TEXTS:
            _append(tree, name, text)
        case KeyKind.TEXT_MAP:
            _append(tree, name, dict([text.partition(":")[::2]]))
        case _:
            tree[name] = text


def _append(tree: dict[str, object], name: str, value: object) -> None:
    values = tree.setdefault(name, [])
    assert isinstance(values, list)
    values.append(value)
