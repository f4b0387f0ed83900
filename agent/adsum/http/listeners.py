"""Listening sockets, bound before anything runs, so that an address that is taken stops the start."""

from __future__ import annotations

import errno
import os
import socket
import stat

BACKLOG = 4096
# Go's server probes idle peers as often; a host that vanished frees its blocking queries after three probes.
KEEPALIVE_INTERVAL_S = 15
KEEPALIVE_PROBES = 3


class BindFailed(Exception):
    """The operator's address can't be listened on; the message names it. Nothing is left behind."""


def bind_tcp(host: str, port: int) -> socket.socket:
    """A listening socket on an address literal; `::` takes IPv4 clients as well, as Go's does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        _set_for_accepted(listener)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise BindFailed(f"Can't listen for HTTP on {host} port {port}: {error.strerror}") from error
    listener.settimeout(0)
    return listener


def bind_unix(path: str, *, mode: int | None = None, user_id: int = -1, group_id: int = -1) -> socket.socket:
    """A listening unix socket; a file that a dead process left at the path is replaced.

    Nobody can connect before `listen`, so the mode is in force for the first client already.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        listener.bind(path)
        if mode is not None:
            os.chmod(path, mode)
        if (user_id, group_id) != (-1, -1):
            os.chown(path, user_id, group_id)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise BindFailed(f"Can't listen for HTTP on unix://{path}: {error.strerror}") from error
    listener.settimeout(0)
    return listener


def _remove_stale(path: str) -> None:
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise OSError(errno.EEXIST, "the path exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise OSError(errno.EADDRINUSE, "another process listens there")


def _set_for_accepted(listener: socket.socket) -> None:
    """Linux hands these on to accepted sockets, which saves a system call for each."""
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_INTERVAL_S)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
