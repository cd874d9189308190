import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.typed_json import dumps, loads

PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=9), st.fractions(),
    st.decimals(allow_nan=False), st.dates(), st.datetimes(), st.times(),
)  # fmt: skip
KEYS = st.one_of(
    st.text(max_size=5), st.sampled_from(["!set", "!tuple", "!map"]), st.integers(), st.tuples(st.integers())
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.sets(st.integers(), max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
    ),
    max_leaves=12,
)


def same(first: Any, second: Any) -> bool:
    """Return whether two values are equal, and of the same types all the way down."""
    if type(first) is not type(second):
        return False
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[key], second[key]) for key in first)
    return bool(first == second)


@given(VALUES)
def test_what_is_put_in_comes_out_again_with_the_types_that_it_had(value: Any) -> None:
    text = dumps(value)
    assert same(loads(text), value)
    assert json.loads(text) is not ...


def test_numbers_and_arrays_of_numpy_become_plain_ones() -> None:
    found = loads(dumps({"a": np.int64(3), "b": np.float32(0.5), "c": np.arange(4).reshape(2, 2)}))
    assert same(found, {"a": 3, "b": 0.5, "c": [[0, 1], [2, 3]]})


def test_what_cannot_be_said_is_refused_by_its_type() -> None:
    with pytest.raises(TypeError, match="object"):
        dumps({"a": [object()]})
