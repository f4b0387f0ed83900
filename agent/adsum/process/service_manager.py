"""Tells systemd how we are: ready, reloading, stopping, alive.

The protocol is one datagram of `NAME=value` lines to the Unix socket named in NOTIFY_SOCKET, so it needs
no library. Outside systemd the variable is absent and every verb here does nothing, which lets the rim
call them without asking. A datagram is sent without waiting: the event loop that feeds the watchdog must
not be held by the one who watches it. What the manager's socket would not take is counted in `unsent`; a
lost watchdog beat is made good by the next, for the interval is half of what systemd allows. Our end is kept
open: an agent that has no file left for it would be ended for want of beats.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping

STATUS_CHARACTERS_MAX = 256  # `systemctl status` shows one line


class ServiceManager:
    def __init__(self, address: str | None, *, watchdog_interval_s: float | None = None) -> None:
        self.address = address
        self.watchdog_interval_s = watchdog_interval_s  # None: nobody watches
        self.unsent = 0
        self._socket = None if address is None else socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if self._socket is not None:
            self._socket.settimeout(0)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str]) -> ServiceManager:
        """Takes the variables out, so that a script check cannot speak in our name."""
        address = environ.pop("NOTIFY_SOCKET", "")
        interval_us = environ.pop("WATCHDOG_USEC", "")
        watched_pid = environ.pop("WATCHDOG_PID", str(os.getpid()))
        if not address.startswith(("/", "@")):  # vsock, say, is for whole machines
            return cls(None)
        allowed_us = int(interval_us) if interval_us.isdecimal() else 0
        if not allowed_us or watched_pid != str(os.getpid()):
            return cls(address)
        return cls(address, watchdog_interval_s=allowed_us / 1_000_000 / 2)

    def ready(self, status: str) -> None:
        self._send("READY=1", _status(status))

    def status(self, status: str) -> None:
        self._send(_status(status))

    def reloading(self) -> None:
        """Follow it with `ready` when the reload is done; systemd holds `systemctl reload` until then."""
        # systemd compares this with its own CLOCK_MONOTONIC, which is what Python's monotonic reads on Linux.
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str) -> None:
        self._send("STOPPING=1", _status(status))

    def watchdog(self) -> None:
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if self.address is None or self._socket is None:
            return
        try:
            address = "\0" + self.address[1:] if self.address.startswith("@") else self.address  # abstract
            self._socket.sendto("\n".join(lines).encode(), address)
        except OSError:  # full, gone or forbidden: the service is worth more than its report
            self.unsent += 1


def _status(text: str) -> str:
    """One line, whatever the text holds: a line break would start another assignment."""
    return "STATUS=" + " ".join(text.split())[:STATUS_CHARACTERS_MAX]
