"""Who stands for a service in Consul's mesh, for clients that ask. There is no mesh here: proxies are
services like others, found by what they were registered to stand for.

Nothing is kept per destination, so a query looks at every instance and waits on all of them; its index still
moves only when its own answer does (`rendering`).
"""

from __future__ import annotations

from collections.abc import Iterator

from adsum.catalog.indexes import Family
from adsum.catalog.view import ANY_STATE, Instance, View
from adsum.topics import Topic

TOPICS = (Topic(Family.INSTANCES), Topic(Family.NODES))
HEALTH_TOPICS = (*TOPICS, Topic(Family.STATE, ANY_STATE))
PROXY_KIND = "connect-proxy"


def proxies(view: View, destination: str) -> Iterator[Instance]:
    wanted = destination.lower()
    for name in view.service_names():
        for instance in view.instances(name):
            service = instance.service.value
            if service.kind == PROXY_KIND:
                stands_for = str(service.proxy.get("DestinationServiceName", ""))
            else:
                stands_for = service.name if service.connect.get("Native") is True else ""
            if stands_for.lower() == wanted:
                yield instance
