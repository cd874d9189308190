import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.domains.solids.workshop import (
    add_box,
    add_cylinder,
    box,
    box_around,
    combine,
    cylinder,
    render,
    set_material,
    sphere,
    within,
)
from streams.verifiers.parts.solids import Scene, build

AXES = st.sampled_from("xyz")
PLACE = st.tuples(*[st.integers(-20, 20)] * 3)
BODIES = st.one_of(
    st.builds(lambda size, at: box("", size, at), st.tuples(*[st.integers(2, 20)] * 3), PLACE),
    st.builds(lambda r, h, at, axis: cylinder("", r, h, at, axis), st.integers(2, 10), st.integers(2, 20), PLACE, AXES),
    st.builds(lambda r, h, at, axis: cylinder("", r, h, at, axis) | {"top_radius": r / 2},
              st.integers(2, 10), st.integers(2, 20), PLACE, AXES),
    st.builds(lambda r, at: sphere("", r, at), st.integers(2, 10), PLACE),
)  # fmt: skip
CHANGES = st.sampled_from(["union", "subtract", "intersect", "move", "rotate"])


def scene_of(bodies: list[dict[str, Any]], changes: list[str], rng: random.Random) -> list[dict[str, Any]]:
    """Return operations that make every body and then change what there is."""
    ops = [body | {"id": f"s{place}"} for place, body in enumerate(bodies)]
    for change in changes:
        made = [op["id"] for op in ops]
        of: Any = rng.choice(made) if change in {"move", "rotate"} else rng.sample(made, min(2, len(made)))
        op = {"op": change, "id": f"s{len(ops)}", "of": of}
        ops.append(op if isinstance(of, list) else op | {"by": [rng.randint(-30, 30) for _ in range(3)]})
    return ops


@settings(max_examples=60, deadline=None)
@given(st.lists(BODIES, min_size=1, max_size=3), st.lists(CHANGES, max_size=3), st.integers(0, 1 << 30))
def test_a_point_is_within_what_is_shown_where_it_is_within_what_is_judged(
    bodies: list[dict[str, Any]], changes: list[str], seed: int
) -> None:
    rng = random.Random(seed)
    ops = scene_of(bodies, changes, rng)
    name = ops[-1]["id"]
    solids = {op["id"]: op for op in ops}
    judged = build(msgspec.convert({"ops": ops}, Scene)).solids[name]
    around, is_within = box_around(solids, name), within(solids, name)
    if judged.is_empty():
        return
    low, high = judged.bounding_box()[:3], judged.bounding_box()[3:]
    assert all(a <= b + 1e-6 and c <= d + 1e-6 for (a, d), b, c in zip(around, low, high, strict=True))
    num, num_within = 12, 0
    cell = 1.0
    for low_side, high_side in around:
        cell *= (high_side - low_side) / num
    for i in range(num):
        for j in range(num):
            for k in range(num):
                place = [a + (b - a) * (n + 0.5) / num for (a, b), n in zip(around, (i, j, k), strict=True)]
                num_within += is_within(*place)
    whole = cell * num**3
    assert num_within * cell == pytest.approx(judged.volume(), abs=0.12 * whole)


def test_what_is_built_is_shown_from_its_side() -> None:
    world: dict[str, Any] = {"ops": []}
    add_box(world, "base", [24, 24, 12], [0, 0, 6])
    add_cylinder(world, "hole", 4, 40, [6, 0, 6], "z")
    combine(world, "plate", "subtract", ["base", "hole"])
    top = render(world, "plate", "top")
    assert top["box"] == {"from": [-12, -12, 0], "to": [12, 12, 12]}
    middle = top["image"][5]
    assert middle[15] == "."
    assert middle[3] == "9"
    front = render(world, "plate", "front")["image"]
    assert all("." not in line for line in front)


def test_what_cannot_be_built_is_refused_and_the_scene_stays_as_it_was() -> None:
    world: dict[str, Any] = {"ops": []}
    add_box(world, "a", [1, 1, 1], [0, 0, 0])
    before = json.dumps(world)
    for attempt in (
        lambda: add_box(world, "a", [1, 1, 1], [0, 0, 0]),
        lambda: add_box(world, "b", [1, 1], [0, 0, 0]),
        lambda: add_box(world, "b", [1, 0, 1], [0, 0, 0]),
        lambda: add_cylinder(world, "b", 1, 1, [0, 0, 0], "w"),
        lambda: combine(world, "b", "melt", ["a"]),
        lambda: combine(world, "b", "union", ["c"]),
        lambda: set_material(world, "c", "steel"),
        lambda: render(world, "a", "below"),
    ):
        with pytest.raises(ValueError, match=r"wanted|there is"):
            attempt()
    assert json.dumps(world) == before
