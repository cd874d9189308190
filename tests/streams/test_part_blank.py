"""What agrees with the expected solid no better than what it is made from has not been begun."""

import json
from typing import Any

import pytest

from schemas.errors import ConfigError
from schemas.parts import Part
from schemas.tasks import VerifierSpec
from streams.verifiers import get_verifier
from streams.verifiers.parts.checking import check_spec
from tests.streams.part_examples import rollout

SLAB = {"op": "box", "id": "slab", "size": [40, 30, 5]}
DRILLS = [{"op": "cylinder", "id": f"d{i}", "radius": 3, "height": 20, "at": [10 * i - 10, 0, 0]} for i in range(3)]


def plate(num_holes: int) -> dict[str, Any]:
    of = ["slab", *(drill["id"] for drill in DRILLS[:num_holes])]
    return {"ops": [SLAB, *DRILLS, {"op": "subtract", "id": "plate", "of": of}]}


def spec(blank: list[dict[str, Any]]) -> VerifierSpec:
    options = {"blank": {"ops": blank}}
    return VerifierSpec(kind="parts", parts=(Part(kind="geometry", expected=plate(3), options=options),))


def value(num_holes: int, blank: list[dict[str, Any]]) -> float:
    return get_verifier("parts").score(spec(blank), rollout(json.dumps(plate(num_holes)))).value


def test_the_blank_is_worth_nothing_and_each_hole_something() -> None:
    check_spec(spec([SLAB]))
    values = [value(num_holes, [SLAB]) for num_holes in range(4)]
    assert values[0] == 0
    assert values[3] == 1
    assert values == sorted(values)
    assert 0.3 < values[1] < values[2] < 1


def test_a_blank_that_is_right_already_is_no_spec() -> None:
    with pytest.raises(ConfigError, match="blank: one of its solids is the expected one"):
        check_spec(spec(plate(3)["ops"]))
