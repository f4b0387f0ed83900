"""A service that gave an IP address can be asked for by its family: Consul tags it so at registration."""

from __future__ import annotations

import ipaddress

from adsum.catalog.definitions import ServiceAddress, ServiceDefinition
from adsum.frozen import replace


def with_family_addresses(definition: ServiceDefinition) -> ServiceDefinition:
    try:
        family = ipaddress.ip_address(definition.address).version
    except ValueError:  # none was given, or a name
        return definition
    own = ServiceAddress(definition.address, definition.port)
    tags = {f"lan_ipv{family}": own, f"wan_ipv{family}": own}
    return replace(definition, tagged_addresses={**tags, **definition.tagged_addresses})
