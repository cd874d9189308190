"""Numbers of a rollout as packed bytes.

Stored byte-shuffled, little-endian: all lowest bytes first, then all second ones, and so on. Neighbouring tokens share
their high bytes, so that zstd needs about 1.5 bytes for a token id and 3.6 for a float32 log-probability.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

Dtype = Literal["i4", "f4", "f2", "u1"]
ITEM_BYTES: dict[str, int] = {"i4": 4, "f4": 4, "f2": 2, "u1": 1}


class PackedArray(msgspec.Struct, frozen=True, kw_only=True):
    """A one-dimensional array on the wire.

    Example: `PackedArray.pack([7, 8], dtype="i4").unpack()` is `array([7, 8], dtype=int32)`.
    """

    dtype: Dtype
    """`i4` int32, `f4` float32, `f2` float16, `u1` uint8."""
    data: bytes
    """`len * itemsize` bytes, shuffled."""

    def __post_init__(self) -> None:
        """Refuse bytes that are no whole number of items."""
        if len(self.data) % ITEM_BYTES[self.dtype]:
            raise ValueError(f"packed {self.dtype} array of {len(self.data)} bytes: wanted a multiple of its item size")

    @classmethod
    def pack(cls, values: Iterable[float] | npt.NDArray[Any], *, dtype: Dtype) -> "PackedArray":
        """Pack numbers of shape [T]."""
        if not isinstance(values, np.ndarray):
            values = np.array(list(values))
        array = values.astype("<" + dtype)
        return cls(dtype=dtype, data=array.view(np.uint8).reshape(-1, array.itemsize).T.tobytes())

    def unpack(self) -> npt.NDArray[Any]:
        """Return shape [T] in the stored type."""
        dtype = np.dtype("<" + self.dtype)
        shuffled = np.frombuffer(self.data, np.uint8).reshape(dtype.itemsize, -1)
        return np.ascontiguousarray(shuffled.T).view(dtype).reshape(-1)

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.data) // ITEM_BYTES[self.dtype]
