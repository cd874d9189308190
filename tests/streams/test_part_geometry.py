"""Solids: what each value of one falls by, and what is as right as the expected way to it."""

import json
from typing import Any

import pytest

from schemas.parts import Part
from schemas.tasks import VerifierSpec
from streams.verifiers import get_verifier
from tests.streams.part_examples import PLATE, rollout, worth


def scene(**changes: Any) -> str:
    return json.dumps({"ops": [op | changes.get(op.get("id", op["op"]), {}) for op in PLATE["ops"]]})


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (scene(drill={"at": [-10, 5, 0]}), {"iou"}),
        (scene(drill={"radius": 4}), {"volume", "iou"}),
        (scene(material={"name": "wood"}), {"material"}),
        (scene(slab={"size": [44, 30, 5]}), {"volume", "bbox", "iou"}),
        (scene(plate={"of": ["slab"]}), {"volume", "genus", "iou"}),
    ],
)
def test_each_value_of_a_solid_falls_by_what_is_wrong_with_it(text: str, wrong: set[str]) -> None:
    spec = VerifierSpec(kind="parts", parts=(Part(kind="geometry", expected=PLATE),))
    found = get_verifier("parts").score(spec, rollout(text))
    names = {"status", "volume", "bbox", "genus", "iou", "material"}
    assert {name for name in names if found.parts[f"geometry.plate.{name}"] < 1} == wrong
    assert 0.3 < found.value < 1
    assert ("plate.iou" in found.evidence["geometry"]) == ("iou" in wrong)


def test_another_way_to_the_same_solid_is_as_right() -> None:
    turned = [
        {"op": "cylinder", "id": "d", "radius": 3, "height": 9, "axis": "x"},
        {"op": "rotate", "id": "e", "of": "d", "by": [0, 90, 0]},
        {"op": "move", "id": "f", "of": "e", "by": [10, 5, 0]},
        {"op": "box", "id": "left", "size": [20, 30, 5], "at": [-10, 0, 0]},
        {"op": "box", "id": "right", "size": [20, 30, 5], "at": [10, 0, 0]},
        {"op": "union", "id": "both", "of": ["left", "right"]},
        {"op": "subtract", "id": "plate", "of": ["both", "f"]},
        {"op": "material", "of": "plate", "name": "steel"},
    ]
    assert worth(json.dumps({"ops": turned}), "geometry", PLATE) == 1


def test_solids_that_are_to_be_apart_are_worth_nothing_where_they_are_not() -> None:
    def two(x: float) -> dict[str, Any]:
        boxes = [{"op": "box", "id": name, "size": [2, 2, 2], "at": [at, 0, 0]} for name, at in (("a", 0), ("b", x))]
        return {"ops": boxes}

    options = {"solids": ["a", "b"], "apart": True}
    assert worth(json.dumps(two(2)), "geometry", two(2), **options) == 1
    assert worth(json.dumps(two(1.5)), "geometry", two(2), **options) == 0
    assert 0.5 < worth(json.dumps(two(1.9)), "geometry", two(2), solids=["a", "b"]) < 1
    with pytest.raises(Exception, match="run into each other"):
        worth("", "geometry", two(1), **options)


def test_a_scene_that_would_take_for_ever_is_refused_before_it_does() -> None:
    balls = [{"op": "sphere", "id": f"b{i}", "radius": 5 + i / 7, "at": [i / 9, 0, 0]} for i in range(50)]
    names = [ball["id"] for ball in balls]
    unions = [{"op": "union", "id": f"u{i}", "of": names} for i in range(50)]
    spec = VerifierSpec(kind="parts", parts=(Part(kind="geometry", expected=PLATE),))
    found = get_verifier("parts").score(spec, rollout(json.dumps({"ops": balls + unions})))
    assert found.value == 0
    assert "triangles" in found.evidence["geometry"]
