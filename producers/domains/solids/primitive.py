"""One solid with given, or derived, dimensions in a given place."""

import random
from typing import Any

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.solids.workshop import box, cylinder, scene_item, sphere

USES = ("spacer", "weight", "float", "blank", "dummy", "pad", "core", "bollard", "puck", "ingot")
AXES = {"x": "lying along the x axis", "y": "lying along the y axis", "z": "standing upright, along z"}


@domain(family="3d", levels=4, max_tokens=256)
def solid_primitive(rng: random.Random, level: int) -> Item:
    """Build one box, cylinder or sphere, whose dimensions are given or follow from each other."""
    use = rng.choice(USES)
    name = f"{use}_{rng.randint(1, 99)}"
    at = [rng.randint(-60, 60) for _ in range(3)]
    kind = rng.choice(("box", "cylinder") if level == 0 else ("box", "cylinder", "sphere"))
    lay = {"box": a_box, "cylinder": a_cylinder, "sphere": a_sphere}[kind]
    text, op, moved = lay(rng, name, at, level)
    question = f"Build a {use} named `{name}`: {text}"
    others = [[moved]] if level else []
    return scene_item(question, [op], [name], difficulty=4 + 2 * level, partials=others, wrongs=[[far(op)]])


def far(op: dict[str, Any]) -> dict[str, Any]:
    """Return the same solid where nobody asked for it."""
    return op | {"at": [coordinate + 500 for coordinate in op["at"]]}


def on_the_floor(at: list[int], height: float, level: int) -> tuple[str, list[float]]:
    """Return what is said of the place, and the centre that it means."""
    x, y, z = at
    if level == 0:
        return f"with its centre at ({x}, {y}, {z})", [x, y, z]
    if level == 1:
        return f"with its centre above ({x}, {y}) and its lowest point at z = {z}", [x, y, z + height / 2]
    return f"centred above ({x}, {y}), its highest point at z = {z}", [x, y, z - height / 2]


def a_box(rng: random.Random, name: str, at: list[int], level: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return a box as it is told and as it is made, and one that is nearly it."""
    long, wide, high = (2 * rng.randint(4, 40) for _ in range(3))
    where, centre = on_the_floor(at, high, level)
    told = f"{long} long in x, {wide} wide in y and {high} high"
    if level >= 2:
        told = f"a base of {long} in x by {wide} in y, and a volume of {long * wide * high} cubic millimetres"
    if level == 3:
        told = f"as wide in y as it is long in x, {long}, with a volume of {long * long * high} cubic millimetres"
        wide = long
    return (
        f"a box, {told}, {where}.",
        box(name, [long, wide, high], centre),
        box(name, [long, wide, high * 0.8], [centre[0], centre[1], centre[2]]),
    )


def a_cylinder(rng: random.Random, name: str, at: list[int], level: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return a cylinder as it is told and as it is made, and one that is nearly it."""
    radius, height = rng.randint(4, 30), 2.0 * rng.randint(4, 40)
    axis = rng.choice("xyz") if level else "z"
    where, centre = on_the_floor(at, height if axis == "z" else 2 * radius, level)
    told = f"radius {radius}, {height:g} long"
    if level >= 2:
        told = f"diameter {2 * radius}, and {height / (2 * radius):.6g} times as long as that"
        height = round(height / (2 * radius), 6) * 2 * radius
        where, centre = on_the_floor(at, height if axis == "z" else 2 * radius, level)
    if level == 3:
        told = f"just wide enough for a ball of diameter {2 * radius}, and as long as {height / 2:g} coins of 2 mm"
        height = 2 * round(height / 2)
        where, centre = on_the_floor(at, height if axis == "z" else 2 * radius, level)
    return (
        f"a cylinder {AXES[axis]}, {told}, {where}.",
        cylinder(name, radius, height, centre, axis),
        cylinder(name, radius * 0.9, height, centre, axis),
    )


def a_sphere(rng: random.Random, name: str, at: list[int], level: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return a sphere as it is told and as it is made, and one that is nearly it."""
    radius = rng.randint(4, 40)
    where, centre = on_the_floor(at, 2 * radius, level)
    told = {1: f"radius {radius}", 2: f"diameter {2 * radius}"}.get(
        level, f"fitting exactly into a cube of edge {2 * radius}"
    )
    return f"a ball, {told}, {where}.", sphere(name, radius, centre), sphere(name, radius * 0.93, centre)
