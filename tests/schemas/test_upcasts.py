from typing import Any

import pytest

from schemas.errors import DecodeError
from schemas.upcasts import upcast


def rename(old: str, new: str) -> Any:
    return lambda fields: {new if name == old else name: value for name, value in fields.items()}


CHAIN = {("thing", 1): rename("a", "b"), ("thing", 2): rename("b", "c")}


def test_an_old_record_takes_every_step_to_the_present() -> None:
    assert upcast("thing", 1, {"a": 5}, target=3, upcasts=CHAIN) == {"c": 5}
    assert upcast("thing", 2, {"b": 5}, target=3, upcasts=CHAIN) == {"c": 5}


def test_the_present_version_is_left_as_it_is() -> None:
    assert upcast("thing", 3, {"a": 5}, target=3, upcasts=CHAIN) == {"a": 5}


def test_a_version_from_the_future_is_refused() -> None:
    with pytest.raises(DecodeError, match="newer rollog"):
        upcast("thing", 4, {}, target=3, upcasts=CHAIN)


def test_a_gap_in_the_chain_is_refused() -> None:
    with pytest.raises(DecodeError, match="no upcast from version 3 to 4"):
        upcast("thing", 1, {}, target=4, upcasts=CHAIN)
