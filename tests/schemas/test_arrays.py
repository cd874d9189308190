import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from schemas.arrays import PackedArray


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_integers_come_back_as_they_went_in(values: list[int]) -> None:
    packed = PackedArray.pack(values, dtype="i4")
    assert packed.unpack().tolist() == values
    assert len(packed) == len(values)


@given(st.lists(st.floats(width=32, allow_nan=False)))
def test_float32_comes_back_bit_for_bit(values: list[float]) -> None:
    assert PackedArray.pack(values, dtype="f4").unpack().tolist() == values


def test_float16_is_rounded_to_float16_and_nothing_else() -> None:
    values = [-0.1, -3.3, -11.7]
    assert PackedArray.pack(values, dtype="f2").unpack().tolist() == np.array(values, np.float16).tolist()


def test_bytes_that_are_no_whole_number_of_items_are_refused() -> None:
    with pytest.raises(ValueError, match="wanted a multiple"):
        PackedArray(dtype="i4", data=b"12345")


def test_shuffled_token_ids_compress_better_than_plain_ones() -> None:
    values = np.random.default_rng(0).zipf(1.3, 4000).clip(0, 32000).astype(np.int32)
    shuffled = PackedArray.pack(values, dtype="i4").data
    compress = zstandard.ZstdCompressor().compress
    assert len(compress(shuffled)) < len(compress(values.tobytes()))
