"""Tools of a small workshop of solids, and items whose result is judged by its geometry.

The world is a scene: operations in the form that the verifier's `geometry` parts read. `render` shows a solid as
characters, so that what was built can be looked at; it asks of points whether they are within, and needs no library.
"""

from collections.abc import Sequence
from typing import Any

from producers.domains.interface import Item
from producers.domains.tools import with_tools, world_tools
from schemas.parts import Part
from schemas.tasks import VerifierSpec
from schemas.tools import written

SPARE_TURNS = 8
"""Beyond what a right rollout needs, to look and to mend."""


def note(world: dict[str, Any], op: dict[str, Any]) -> dict[str, Any]:
    """Put an operation down; refuses one that cannot be."""
    ops = world.setdefault("ops", [])
    made = [one["id"] for one in ops if "id" in one]
    if op.get("id") in made:
        raise ValueError(f"there is a solid {op['id']!r} already")
    of = op.get("of", [])
    for name in [of] if isinstance(of, str) else of:
        if name not in made:
            raise ValueError(f"there is no solid {name!r}; there are: {', '.join(made) or 'none'}")
    for field in ("at", "by", "size"):
        if field in op and (len(op[field]) != 3 or any(isinstance(one, bool) for one in op[field])):
            raise ValueError(f"{field} {op[field]}: wanted three numbers")
    sizes = [op[field] for field in ("radius", "height") if field in op] + list(op.get("size", []))
    if any(size <= 0 for size in sizes):
        raise ValueError(f"sizes {sizes}: wanted more than 0")
    ops.append(op)
    return {"solids": [*made, *([op["id"]] if "id" in op else [])]}


def add_box(world: dict[str, Any], id: str, size: list[float], at: list[float]) -> dict[str, Any]:  # noqa: A002
    """Make a box along the axes.

    id: the new solid's name
    size: lengths along x, y and z
    at: its centre
    """
    return note(world, {"op": "box", "id": id, "size": size, "at": at})


def add_cylinder(  # noqa: PLR0917
    world: dict[str, Any],
    id: str,  # noqa: A002
    radius: float,
    height: float,
    at: list[float],
    axis: str,
    top_radius: float = -1.0,
) -> dict[str, Any]:
    """Make a cylinder, or a cone where the radius at its upper end is another one.

    at: its centre, halfway up
    axis: x, y or z, along which it goes
    top_radius: radius at the end with the larger coordinate
    """
    if axis not in ("x", "y", "z"):
        raise ValueError(f"axis {axis!r}: wanted x, y or z")
    op = {"op": "cylinder", "id": id, "radius": radius, "height": height, "at": at, "axis": axis}
    return note(world, op if top_radius < 0 else op | {"top_radius": top_radius})


def add_sphere(world: dict[str, Any], id: str, radius: float, at: list[float]) -> dict[str, Any]:  # noqa: A002
    """Make a sphere."""
    return note(world, {"op": "sphere", "id": id, "radius": radius, "at": at})


def combine(world: dict[str, Any], id: str, how: str, of: list[str]) -> dict[str, Any]:  # noqa: A002
    """Make a solid of others, which stay.

    how: union, subtract (the first without the others) or intersect
    """
    if how not in ("union", "subtract", "intersect") or not of:
        raise ValueError(f"how {how!r} of {of}: wanted union, subtract or intersect of some solids")
    return note(world, {"op": how, "id": id, "of": of})


def move(world: dict[str, Any], id: str, of: str, by: list[float]) -> dict[str, Any]:  # noqa: A002
    """Make a moved copy of a solid."""
    return note(world, {"op": "move", "id": id, "of": of, "by": by})


def rotate(world: dict[str, Any], id: str, of: str, by: list[float]) -> dict[str, Any]:  # noqa: A002
    """Make a turned copy of a solid: degrees about x, then y, then z, about the origin."""
    return note(world, {"op": "rotate", "id": id, "of": of, "by": by})


def set_material(world: dict[str, Any], of: str, name: str) -> dict[str, Any]:
    """Say what a solid is made of."""
    return note(world, {"op": "material", "of": of, "name": name})


def turned(point: list[float], degrees: list[float], back: bool) -> list[float]:
    """Turn a point about x, y and z, or back."""
    import math

    x, y, z = point
    for axis in (2, 1, 0) if back else (0, 1, 2):
        angle = math.radians(-degrees[axis] if back else degrees[axis])
        c, s = math.cos(angle), math.sin(angle)
        if axis == 0:
            y, z = c * y - s * z, s * y + c * z
        elif axis == 1:
            x, z = c * x + s * z, -s * x + c * z
        else:
            x, y = c * x - s * y, s * x + c * y
    return [x, y, z]


def within(solids: dict[str, Any], name: str) -> Any:
    """Give the function of x, y and z that says whether a point is within a solid."""
    op = solids[name]
    kind = op["op"]
    if kind in ("move", "rotate"):
        inner, (i, j, k) = within(solids, op["of"]), op["by"]
        if kind == "move":
            return lambda x, y, z: inner(x - i, y - j, z - k)
        return lambda x, y, z: inner(*turned([x, y, z], op["by"], True))
    if kind in ("union", "intersect", "subtract"):
        first, *others = (within(solids, one) for one in op["of"])
        if kind == "union":
            return lambda x, y, z: first(x, y, z) or any(other(x, y, z) for other in others)
        if kind == "intersect":
            return lambda x, y, z: first(x, y, z) and all(other(x, y, z) for other in others)
        return lambda x, y, z: first(x, y, z) and not any(other(x, y, z) for other in others)
    return within_body(op)


def within_body(op: dict[str, Any]) -> Any:
    """Give the function of x, y and z that says whether a point is within a box, a ball or a cylinder."""
    kind = op["op"]
    i, j, k = op["at"]
    if kind == "box":
        long, wide, high = (size / 2 for size in op["size"])
        return lambda x, y, z: abs(x - i) <= long and abs(y - j) <= wide and abs(z - k) <= high
    radius = op["radius"]
    if kind == "sphere":
        return lambda x, y, z: (x - i) ** 2 + (y - j) ** 2 + (z - k) ** 2 <= radius * radius
    half, grows = op["height"] / 2, (op.get("top_radius", radius) - radius) / op["height"]

    def in_cylinder(along: float, one: float, other: float) -> bool:
        return abs(along) <= half and one * one + other * other <= (radius + grows * (along + half)) ** 2  # type: ignore[no-any-return]

    if op["axis"] == "x":
        return lambda x, y, z: in_cylinder(x - i, y - j, z - k)
    if op["axis"] == "y":
        return lambda x, y, z: in_cylinder(y - j, x - i, z - k)
    return lambda x, y, z: in_cylinder(z - k, x - i, y - j)


def box_around(solids: dict[str, Any], name: str) -> list[list[float]]:
    """Say from where to where a solid goes at most, along x, y and z."""
    import itertools

    op = solids[name]
    kind = op["op"]
    if kind in ("move", "rotate"):
        inner = box_around(solids, op["of"])
        corners = [list(corner) for corner in itertools.product(*inner)]
        if kind == "move":
            corners = [[a + b for a, b in zip(corner, op["by"], strict=True)] for corner in corners]
        else:
            corners = [turned(corner, op["by"], False) for corner in corners]
        return [[min(axis), max(axis)] for axis in zip(*corners, strict=True)]
    if kind == "union":
        boxes = [box_around(solids, one) for one in op["of"]]
        return [[min(low for low, _ in axis), max(high for _, high in axis)] for axis in zip(*boxes, strict=True)]
    if kind in ("subtract", "intersect"):
        return box_around(solids, op["of"][0])
    if kind == "box":
        half = [size / 2 for size in op["size"]]
    elif kind == "sphere":
        half = [op["radius"]] * 3
    else:
        radius = max(op["radius"], op.get("top_radius", 0))
        half = [op["height"] / 2 if axis == op["axis"] else radius for axis in "xyz"]
    return [[at - by, at + by] for at, by in zip(op["at"], half, strict=True)]


def render(world: dict[str, Any], of: str, view: str) -> dict[str, Any]:
    """Show a solid: 9 is nearest, 1 farthest, a dot is nothing.

    view: top (x to the right, y up), front (x to the right, z up) or right (y to the right, z up)
    """
    solids = {op["id"]: op for op in world.get("ops", []) if "id" in op}
    if of not in solids or view not in ("top", "front", "right"):
        raise ValueError(f"solid {of!r}, view {view!r}: wanted one of {', '.join(solids)}, and top, front or right")
    across, up, depth, sign = {"top": (0, 1, 2, -1), "front": (0, 2, 1, 1), "right": (1, 2, 0, -1)}[view]
    box, is_within = box_around(solids, of), within(solids, of)
    columns, rows, samples = 20, 10, 10
    width, height, deep = (box[axis][1] - box[axis][0] for axis in (across, up, depth))
    lines = []
    for row in range(rows):
        line = ""
        for column in range(columns):
            point = [0.0, 0.0, 0.0]
            point[across] = box[across][0] + width * (column + 0.5) / columns
            point[up] = box[up][1] - height * (row + 0.5) / rows
            mark = "."
            for sample in range(samples):
                place = (sample + 0.5) / samples
                point[depth] = box[depth][0] + deep * (place if sign > 0 else 1 - place)
                if is_within(*point):
                    mark = str(9 - sample * 9 // samples)
                    break
            line += mark
        lines.append(line)
    low, high = ([round(axis[side], 3) for axis in box] for side in (0, 1))
    return {"view": view, "box": {"from": low, "to": high}, "image": lines}


TOOLS = (add_box, add_cylinder, add_sphere, combine, move, rotate, set_material, render)
HELPERS = (note, turned, within, within_body, box_around)
CALL_OF = {"box": "add_box", "cylinder": "add_cylinder", "sphere": "add_sphere", "material": "set_material"}


def call_of(op: dict[str, Any]) -> str:
    """Return the call that makes an operation."""
    arguments = {name: value for name, value in op.items() if name != "op"}
    if op["op"] in ("union", "subtract", "intersect"):
        return written("combine", how=op["op"], **arguments)
    return written(CALL_OF.get(op["op"], op["op"]), **arguments)


def box(name: str, size: Sequence[float], at: Sequence[float]) -> dict[str, Any]:
    """Return the operation that makes a box."""
    return {"op": "box", "id": name, "size": [*size], "at": [*at]}


def cylinder(name: str, radius: float, height: float, at: Sequence[float], axis: str = "z") -> dict[str, Any]:
    """Return the operation that makes a cylinder."""
    return {"op": "cylinder", "id": name, "radius": radius, "height": height, "at": [*at], "axis": axis}


def sphere(name: str, radius: float, at: Sequence[float]) -> dict[str, Any]:
    """Return the operation that makes a sphere."""
    return {"op": "sphere", "id": name, "radius": radius, "at": [*at]}


def scene_item(
    question: str,
    ops: list[dict[str, Any]],
    solids: Sequence[str],
    *,
    difficulty: float,
    apart: bool = False,
    blank: Sequence[dict[str, Any]] = (),
    parts: Sequence[Part] = (),
    looks: Sequence[str] = (),
    answer: str = "Done.",
    wrongs: Sequence[Sequence[dict[str, Any]]] = (),
    partials: Sequence[Sequence[dict[str, Any]]] = (),
    wrong_answers: Sequence[tuple[Sequence[dict[str, Any]], str]] = (),
) -> Item:
    """Return an item whose scene at the end has these solids, as `ops` make them.

    `blank` are solids that somebody makes who has not begun with the matter: what agrees no better than they do is
    worth nothing. `parts` are looked at besides the geometry, `looks` are views that a right rollout renders of the
    last solid, and
    `wrongs` and `partials` are operations of rollouts that are worth nothing, or something, `wrong_answers` some with
    an answer that is worth nothing either.
    """
    execution = world_tools(*TOOLS, helpers=HELPERS, world={"ops": []})
    geometry = Part(
        kind="geometry",
        of="file:world.json",
        expected={"ops": ops},
        options={"solids": list(solids), "apart": apart, "blank": {"ops": list(blank)} if blank else None},
        weight=1.0,
    )
    failed = [*((one, answer) for one in wrongs), *wrong_answers]
    calls = [*map(call_of, ops), *(written("render", of=solids[-1], view=view) for view in looks)]
    return Item(
        prompt=with_tools(f"{question}\nLengths are in millimetres.", execution),
        gold=(*calls, answer),
        verifier=VerifierSpec(kind="parts", parts=(geometry, *parts)),
        execution=execution,
        max_turns=len(calls) + 1 + SPARE_TURNS,
        wrongs=tuple(
            (*map(call_of, one), *(written("render", of=one[-1]["id"], view=view) for view in looks), said)
            for one, said in failed
        ),
        partials=tuple((*map(call_of, one), answer) for one in partials),
        difficulty=difficulty,
    )
