"""Solids that are the expected ones in shape, place and material.

How both sides write them, `streams/verifiers/parts/solids.py` says. The answer, or a file that it left, is
`{"ops": [...]}` as JSON, and so is `expected`. The solids that are judged are those of `options.solids`, by id; by
default the last one that `expected` makes. Each has five values and the mean of them, `iou` counting twice:

- `status`: it is there, and is a solid.
- `volume`, `bbox`: within `relative` of the expected volume, and of the expected size of the box around it.
- `genus`: as many holes go through it.
- `iou`: volume in common over volume of either, from `floor` on; `material`, where one is expected: it is that.

Where the `iou` is under the floor nothing counts: something that is somewhere else is no part of an answer.

Example: `Part(kind="geometry", of="file:scene.json", expected={"ops": [{"op": "box", "id": "a", "size": [1, 2, 3]}]})`.
"""

from typing import Any

import msgspec

from streams.verifiers.parts.extraction import read_json
from streams.verifiers.parts.interface import Found, PartKind
from streams.verifiers.parts.solids import Built, Material, Scene, build, iou, is_sound, overlap

MOST_CHARS = 200_000
TOUCHES = 1e-3
"""Share of the smaller of two solids that may lie within the other where they are to be apart."""
ROUNDING = 1e-6
WHOLE = 1 - 1e-3
"""IoU from which two solids are the same: slices and rounding leave less."""


class GeometryOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is judged, and how nearly."""

    solids: list[str] = []
    """Ids, the same in the answer and in what is expected; empty is the last solid of what is expected."""
    relative: float = 0.01
    """Tolerance of volumes, and of boxes by their diagonal."""
    floor: float = 0.5
    """IoU up to which a solid is worth nothing."""
    blank: Scene | None = None
    """What somebody makes who has not begun with the matter: an `iou` no better than that of one of its solids is under
    the floor, too."""
    apart: bool = False
    """Whether the judged solids must not run into each other: those that do are worth nothing."""


def score(text: str, expected: Scene, options: GeometryOptions) -> Found:
    """Return the mean over the judged solids."""
    wanted = build(expected)
    blank = blank_of(options)
    ids = judged(expected, options)
    try:
        if len(text) > MOST_CHARS:
            raise ValueError(f"{len(text)} characters; at most {MOST_CHARS} are read")
        got = build(msgspec.convert(read_json(text), Scene))
    except (ValueError, msgspec.ValidationError) as error:
        return Found(0.0, f"no scene: {error}"[:200])
    parts: dict[str, float] = {}
    values = {
        name: value_of(name, got, wanted, floor_of(wanted.solids[name], blank, options), options, parts) for name in ids
    }
    if options.apart:
        for name in colliding(got, ids):
            values[name] = 0.0
            parts[f"{name}.apart"] = 0.0
    why = ", ".join(f"{name} {value:.4g}" for name, value in parts.items() if value < 1)
    return Found(sum(values.values()) / len(values), why[:300], parts)


def judged(expected: Scene, options: GeometryOptions) -> list[str]:
    """Return the ids of the solids that are judged."""
    made = [op.id for op in expected.ops if not isinstance(op, Material)]
    return options.solids or made[-1:]


def value_of(  # noqa: PLR0917
    name: str, got: Built, wanted: Built, floor: float, options: GeometryOptions, parts: dict[str, float]
) -> float:
    """Return what one solid is worth, and put what that is made of in `parts`."""
    solid, right = got.solids.get(name), wanted.solids[name]
    if solid is None or not is_sound(solid):
        parts[f"{name}.status"] = 0.0
        return 0.0
    share = iou(solid, right)
    share = 1.0 if share >= WHOLE else max(0.0, (share - floor) / (1 - floor))
    found = {
        "status": 1.0,
        "volume": float(abs(solid.volume() - right.volume()) <= options.relative * right.volume()),
        "bbox": float(is_boxed(solid.bounding_box(), right.bounding_box(), options.relative)),
        "genus": float(solid.genus() == right.genus()),
        "iou": share,
    }
    if name in wanted.materials:
        found["material"] = float(got.materials.get(name) == wanted.materials[name])
    parts.update({f"{name}.{key}": value for key, value in found.items()})
    return (sum(found.values()) + share) / (len(found) + 1) if share else 0.0


def blank_of(options: GeometryOptions) -> list[Any]:
    """Return the solids of somebody who has not begun."""
    return list(build(options.blank).solids.values()) if options.blank else []


def floor_of(right: Any, blank: list[Any], options: GeometryOptions) -> float:
    """Return the overlap up to which a solid is worth nothing. Raises ValueError where a blank one is right already."""
    shares = [iou(solid, right) + ROUNDING for solid in blank]
    if any(share >= WHOLE for share in shares):
        raise ValueError("blank: one of its solids is the expected one")
    return max([options.floor, *shares])


def is_boxed(got: tuple[float, ...], wanted: tuple[float, ...], relative: float) -> bool:
    """Return whether two boxes have their corners in one place."""
    diagonal = sum((wanted[axis + 3] - wanted[axis]) ** 2 for axis in range(3)) ** 0.5
    return all(abs(a - b) <= relative * diagonal for a, b in zip(got, wanted, strict=True))


def colliding(got: Built, ids: list[str]) -> set[str]:
    """Return the ids of solids that run into another one."""
    solids = {name: got.solids[name] for name in ids if name in got.solids and is_sound(got.solids[name])}
    found: set[str] = set()
    for place, first in enumerate(solids):
        for second in list(solids)[place + 1 :]:
            area_a, area_b, common = overlap(solids[first], solids[second])
            if common > TOUCHES * min(area_a, area_b):
                found |= {first, second}
    return found


def check(expected: Scene, options: GeometryOptions) -> None:
    """Refuse a scene that cannot be built, and solids that it does not have."""
    wanted = build(expected)
    ids = judged(expected, options)
    for name in ids:
        if name not in wanted.solids or not is_sound(wanted.solids[name]):
            raise ValueError(f"solids: got {name!r}, which expected does not make; it makes {', '.join(wanted.solids)}")
    blank = blank_of(options)
    for name in ids:
        floor_of(wanted.solids[name], blank, options)
    if not ids:
        raise ValueError("expected: makes no solid; wanted at least one")
    if not (0 < options.relative < 1 and 0 <= options.floor < 1):
        raise ValueError(f"relative, floor: got {options.relative}, {options.floor}; wanted shares below 1")
    if options.apart and colliding(wanted, ids):
        raise ValueError(f"apart: {', '.join(sorted(colliding(wanted, ids)))} of expected run into each other")


def load() -> Any:
    """Import what is heavy."""
    import manifold3d

    return manifold3d


GEOMETRY = PartKind(
    name="geometry",
    version=2,
    cost="dear",
    expects=Scene,
    options=GeometryOptions,
    score=score,
    check=check,
    library="manifold3d",
    load=load,
    limit_s=20.0,
)
