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
        places = [_place(api, name, is_wide=is_wide) for name in names]
    area = "WAN" if is_wide else "LAN"
    shown = f"{distance_s(*places) * MILLISECONDS:.3f} ms (using {area} coordinates)"
    print(f"Estimated {names[0]} <-> {names[1]} rtt: {shown}")
    return 0


def distance_s(one: Place, other: Place) -> float:
    """Vivaldi's, as Consul's client library reckons it."""
    raw: float = math.dist(one["Vec"], other["Vec"]) + one["Height"] + other["Height"]
    adjusted: float = raw + one["Adjustment"] + other["Adjustment"]
    return adjusted if adjusted > 0 else raw


def _place(api: Api, full_name: str, *, is_wide: bool) -> Place:
    if is_wide:
        node, _, datacenter = full_name.rpartition(".")
        if not node:
            raise UsageError("with -wan a node is named with its data centre: NODE.DATACENTER")
        areas = api.get_list("/v1/coordinate/datacenters")
        here = [area for area in areas if area["Datacenter"].lower() == datacenter.lower()]
        listed = [each for area in here for each in area["Coordinates"]]
    else:
        node, listed = full_name, api.get_list("/v1/coordinate/nodes")
    for each in listed:
        if each["Node"].lower() == node.lower():
            place: Place = each["Coord"]
            return place
    raise NotFound(
        f'Could not find a coordinate for node "{full_name}": is it a member (`adsum members`)? '
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
