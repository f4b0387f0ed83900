"""`adsum rtt`: the round trip between two members, by their places on the map of the cluster."""

from __future__ import annotations

import math
from typing import Any

from adsum.cli.command import Command, CommandFlag, NotFound, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, Api, connect

MILLISECONDS = 1e3

Place = dict[str, Any]


def run(call: ParsedCommand) -> int:
    is_wide = call.is_on("wan")
    with connect(call) as api:
        names = list(call.words)
        if len(names) == 1:
            own = api.get_object("/v1/agent/self")["Config"]
            names.append(f"{own['NodeName']}.{own['Datacenter']}" if is_wide else own["NodeName"])
        places = [_wide_area_place(api, name) if is_wide else _place(api, name) for name in names]
    area = "WAN" if is_wide else "LAN"
    shown = f"{distance_s(*places) * MILLISECONDS:.3f} ms (using {area} coordinates)"
    print(f"Estimated {names[0]} <-> {names[1]} rtt: {shown}")
    return 0


def distance_s(one: Place, other: Place) -> float:
    """Vivaldi's, as Consul's client library reckons it."""
    raw: float = math.dist(one["Vec"], other["Vec"]) + one["Height"] + other["Height"]
    adjusted: float = raw + one["Adjustment"] + other["Adjustment"]
    return adjusted if adjusted > 0 else raw


def _place(api: Api, name: str) -> Place:
    return _found(api.get_list("/v1/coordinate/nodes"), name, name)


def _wide_area_place(api: Api, full_name: str) -> Place:
    name, _, datacenter = full_name.rpartition(".")
    if not name:
        raise UsageError("with -wan a node is named with its data centre: NODE.DATACENTER")
    areas = api.get_list("/v1/coordinate/datacenters")
    listed = [area["Coordinates"] for area in areas if area["Datacenter"].lower() == datacenter.lower()]
    return _found([each for coordinates in listed for each in coordinates], name, full_name)


def _found(listed: list[dict[str, Any]], name: str, shown: str) -> Place:
    for each in listed:
        if each["Node"].lower() == name.lower():
            place: Place = each["Coord"]
            return place
    raise NotFound(
        f'Could not find a coordinate for node "{shown}": is it a member (`adsum members`)? '
        "One that has just joined has none yet."
    )


COMMAND = Command(
    run,
    arguments="NODE [NODE]",
    flags=(CommandFlag("wan", "Between servers, each named with its data centre."),),
    groups=(CONNECTION,),
    about="Nothing is sent to measure it: members learn it from the answers to their probes. "
    "With one node, from the agent that is asked.",
)
