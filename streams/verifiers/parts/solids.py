"""Solids from a list of operations, and how far two of them agree; on manifold3d.

A scene is `{"ops": [...]}`. Each operation makes one solid under an id that no other has:

    {"op": "box", "id": "a", "size": [x, y, z], "at": [x, y, z]}
    {"op": "cylinder", "id": "b", "radius": r, "height": h, "at": [x, y, z], "axis": "x", "y" or "z", "top_radius": r}
    {"op": "sphere", "id": "c", "radius": r, "at": [x, y, z]}
    {"op": "union", "id": "d", "of": ["a", "b", ...]}    or "subtract": the first without the others, or "intersect"
    {"op": "move", "id": "e", "of": "d", "by": [x, y, z]}
    {"op": "rotate", "id": "f", "of": "e", "by": [degrees about x, about y, about z]}    about the origin, x first
    {"op": "material", "of": "f", "name": "steel"}    makes no solid, names what one is made of

`at` is the centre, by default the origin; the axis, along which the top is ahead, is z, and the top radius the radius,
where none is said. What is round has 48 sides.

Two solids are compared by slices: a boolean operation of surfaces that coincide, as they do exactly where the answer is
right, takes seconds, and the intersection of flat slices does not.
"""

from typing import Annotated, Any, Literal

import msgspec

SIDES = 48
NUM_SLICES = 48
MOST_OPS = 200
MOST_TRIANGLES = 60_000
"""Of one solid."""
MOST_WORK = 200_000
"""Triangles that the boolean operations of a scene take in together."""
MOST_LENGTH = 1e6
LEAST_LENGTH = 1e-6

Length = Annotated[float, msgspec.Meta(ge=-MOST_LENGTH, le=MOST_LENGTH)]
Size = Annotated[float, msgspec.Meta(ge=LEAST_LENGTH, le=MOST_LENGTH)]
Vector = tuple[Length, Length, Length]
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
ORIGIN = (0.0, 0.0, 0.0)


class Box(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="box", forbid_unknown_fields=True):
    """A box along the axes."""

    id: Id
    size: tuple[Size, Size, Size]
    at: Vector = ORIGIN


class Cylinder(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="cylinder", forbid_unknown_fields=True):
    """A cylinder, or a cone."""

    id: Id
    radius: Size
    height: Size
    at: Vector = ORIGIN
    axis: Literal["x", "y", "z"] = "z"
    top_radius: Annotated[float, msgspec.Meta(ge=0, le=MOST_LENGTH)] | None = None


class Sphere(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="sphere", forbid_unknown_fields=True):
    """A sphere."""

    id: Id
    radius: Size
    at: Vector = ORIGIN


Operands = Annotated[list[str], msgspec.Meta(min_length=1, max_length=50)]


class Union(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="union", forbid_unknown_fields=True):
    """What is in any of them."""

    id: Id
    of: Operands


class Subtract(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="subtract", forbid_unknown_fields=True):
    """What is in the first and in no other one."""

    id: Id
    of: Operands


class Intersect(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="intersect", forbid_unknown_fields=True):
    """What is in all of them."""

    id: Id
    of: Operands


class Move(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="move", forbid_unknown_fields=True):
    """The same elsewhere."""

    id: Id
    of: str
    by: Vector


class Rotate(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="rotate", forbid_unknown_fields=True):
    """The same, turned."""

    id: Id
    of: str
    by: Vector


class Material(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="material", forbid_unknown_fields=True):
    """What a solid is made of."""

    of: str
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


Op = Box | Cylinder | Sphere | Union | Subtract | Intersect | Move | Rotate | Material


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Operations in their order."""

    ops: Annotated[list[Op], msgspec.Meta(min_length=1, max_length=MOST_OPS)]


class Built(msgspec.Struct, frozen=True):
    """A scene's solids and materials by id."""

    solids: dict[str, Any]
    materials: dict[str, str]


def build(scene: Scene) -> Built:
    """Return what the operations make. Raises ValueError, with the place of an operation that cannot be."""
    built, work = Built({}, {}), 0
    for place, op in enumerate(scene.ops):
        try:
            if isinstance(op, Material):
                named(built, op.of)
                built.materials[op.of] = op.name
                continue
            if op.id in built.solids:
                raise ValueError(f"id {op.id!r} is taken")
            if isinstance(op, Union | Subtract | Intersect):
                work += sum(named(built, one).num_tri() for one in op.of)
            if work > MOST_WORK:
                raise ValueError(f"its operations take in over {MOST_WORK} triangles")
            solid = solid_of(op, built)
            if solid.num_tri() > MOST_TRIANGLES:
                raise ValueError(f"{solid.num_tri()} triangles; at most {MOST_TRIANGLES}")
            built.solids[op.id] = solid
        except ValueError as error:
            raise ValueError(f"ops[{place}]: {error}") from error
    return built


def solid_of(op: Op, built: Built) -> Any:
    """Return what one operation makes."""
    from manifold3d import Manifold

    match op:
        case Box():
            return Manifold.cube(op.size, True).translate(op.at)
        case Cylinder():
            top = op.radius if op.top_radius is None else op.top_radius
            upright = Manifold.cylinder(op.height, op.radius, top, SIDES, True)
            turned = {"x": (0.0, 90.0, 0.0), "y": (-90.0, 0.0, 0.0), "z": ORIGIN}[op.axis]
            return upright.rotate(turned).translate(op.at)
        case Sphere():
            return Manifold.sphere(op.radius, SIDES).translate(op.at)
        case Move():
            return named(built, op.of).translate(op.by)
        case Rotate():
            return named(built, op.of).rotate(op.by)
        case Union() | Subtract() | Intersect():
            return combined(op, [named(built, one) for one in op.of])
    raise ValueError(f"{type(op).__name__} makes no solid")


def combined(op: Union | Subtract | Intersect, solids: list[Any]) -> Any:
    """Return the first solid with, or without, the others."""
    from manifold3d import Manifold, OpType

    kinds = {Union: OpType.Add, Subtract: OpType.Subtract, Intersect: OpType.Intersect}
    return Manifold.batch_boolean(solids, kinds[type(op)])


def named(built: Built, name: str) -> Any:
    """Return a solid by id. Raises ValueError."""
    if name not in built.solids:
        raise ValueError(f"there is no solid {name!r} so far")
    return built.solids[name]


def is_sound(solid: Any) -> bool:
    """Return whether it is a solid, and not nothing."""
    from manifold3d import Error

    return solid.status() == Error.NoError and not solid.is_empty() and solid.volume() > 0


def overlap(first: Any, second: Any) -> tuple[float, float, float]:
    """Return the areas of both and of what they have in common, each summed over the same slices."""
    a, b = first.bounding_box(), second.bounding_box()
    low, high = min(a[2], b[2]), max(a[5], b[5])
    areas = [0.0, 0.0, 0.0]
    for index in range(NUM_SLICES):
        z = low + (high - low) * (index + 0.5) / NUM_SLICES
        one, other = first.slice(z), second.slice(z)
        areas[0] += one.area()
        areas[1] += other.area()
        areas[2] += (one ^ other).area()
    return areas[0], areas[1], areas[2]


def iou(first: Any, second: Any) -> float:
    """Return the volume that two solids have in common as a share of what either has: A + B - I is their union."""
    area_a, area_b, common = overlap(first, second)
    union = area_a + area_b - common
    return min(common / union, 1.0) if union > 0 else 0.0
