from hypothesis import given
from hypothesis import strategies as st

from schemas.ids import derive_id, derive_seed


def test_the_same_parts_give_the_same_id_on_every_machine() -> None:
    assert derive_id("cause", "turn_generated", 3, "v1") == "504e95e4ef4af35f788685c4323e649d"


@given(st.text(max_size=5), st.text(max_size=5), st.text(max_size=5), st.text(max_size=5))
def test_moving_the_border_between_parts_changes_the_id(a: str, b: str, c: str, d: str) -> None:
    assert (derive_id(a, b, 0) == derive_id(c, d, 0)) == ((a, b) == (c, d))


@given(st.lists(st.integers(), min_size=1, max_size=4))
def test_seeds_fit_63_bits(parts: list[int]) -> None:
    assert 0 <= derive_seed(*parts) < 2**63
