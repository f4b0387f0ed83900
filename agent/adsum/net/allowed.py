"""Networks that members may come from (`serf_lan_allowed_cidrs`): what others send is dropped unread."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from adsum.newest import remember

HOSTS_MAX = 32_768  # remembered with the answer; when full the memory starts again


class Allowed:
    def __init__(self, networks: Sequence[str] = ()) -> None:
        """None of them lets all in."""
        self.refused = 0
        self._networks = [ipaddress.ip_network(network) for network in networks]
        self._known: dict[str, bool] = {}

    def lets_in(self, host: str) -> bool:
        if not self._networks:
            return True
        is_let_in = self._known.get(host)
        if is_let_in is None:
            address = ipaddress.ip_address(host.partition("%")[0])
            is_let_in = any(address in network for network in self._networks)
            remember(self._known, host, is_let_in, HOSTS_MAX)
        self.refused += not is_let_in
        return is_let_in
