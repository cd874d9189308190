"""A solid that is seen from three sides only."""

import random
from typing import Any

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.solids.workshop import box, box_around, cylinder, render, scene_item, sphere
from schemas.parts import Part


@domain(family="3d", levels=3, max_tokens=320)
def solid_reference_match(rng: random.Random, level: int) -> Item:
    """Build what three rendered views show, and render it to compare."""
    long, wide, high = (2 * rng.randint(15, 40) for _ in range(3))
    x, y = rng.randint(-20, 20), rng.randint(-20, 20)
    ops: list[dict[str, Any]] = [box("base", [long, wide, high], [x, y, high / 2])]
    top = rng.choice(("tower", "dome", "notch"))
    made = [piece(rng, top, 0, (x, y), (long, wide, high))]
    more = [rng.choice(("tower", "dome", "notch", "bore")) for _ in range(level)]
    made += [piece(rng, kind, number, (x, y), (long, wide, high)) for number, kind in enumerate(more, 1)]
    ops += [op for op, _ in made]
    joined = {"op": "union", "id": "joined", "of": ["base", *(op["id"] for op, adds in made if adds)]}
    cut = [op["id"] for op, adds in made if not adds]
    ops += [
        joined,
        {"op": "subtract", "id": "model", "of": ["joined", *cut]}
        if cut
        else {"op": "move", "id": "model", "of": "joined", "by": [0, 0, 0]},
    ]
    views = []
    for view in ("top", "front", "right"):
        shown = render({"ops": ops}, "model", view)
        views.append(
            f"{view} (the picture spans the box from {shown['box']['from']} to {shown['box']['to']}):\n"
            + "\n".join(shown["image"])
        )
    look = Part(
        kind="milestones",
        name="compared",
        expected=[{"call": "render", "status": "ok", "prints": "image"}],
        weight=0.1,
        after=0.05,
    )
    around = box_around({op["id"]: op for op in ops}, "model")
    extents = box("model", [b - a for a, b in around], [(a + b) / 2 for a, b in around])
    is_more = extents["size"] != ops[0]["size"]
    return scene_item(
        f"A model is made of a box and {len(made)} more bodies, joined with it or cut out of it. Three views of it "
        "(9 is nearest, 1 farthest, a dot is nothing):\n\n"
        + "\n\n".join(views)
        + "\n\nBuild it as nearly as you can, name it `model`, and render it to compare.",
        ops,
        ["model"],
        parts=[look],
        looks=["front"],
        difficulty=8 + 8 * level,
        blank=[extents],
        partials=[[ops[0], {"op": "move", "id": "model", "of": "base", "by": [0, 0, 0]}]] if is_more else [],
        wrongs=[[box("other", [5, 5, 5], [0, 0, 0])], [extents]],
    )


def piece(
    rng: random.Random, kind: str, number: int, at: tuple[int, int], size: tuple[int, int, int]
) -> tuple[dict[str, Any], bool]:
    """Return a body that is added to a box, or else cut out of it; and which of both."""
    (x, y), (long, wide, high) = at, size
    name, shift = f"{kind}{number}", rng.randint(-long // 5, long // 5)
    if kind == "tower":
        tall = rng.randint(6, 30)
        return box(name, [long / 4, wide / 3, tall + 2], [x + shift, y, high + tall / 2 - 1]), True
    if kind == "dome":
        return sphere(name, min(long, wide) / 4, [x + shift, y + wide // 6, high]), True
    if kind == "notch":
        return box(name, [long / 3, wide + 2, high / 2], [x + shift, y, high]), False
    return cylinder(name, min(long, high) / 6, wide + 4, [x + shift, y, high / 3], "y"), False
