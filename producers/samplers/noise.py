"""Uniform numbers that depend on a request's seed and a token's place alone, so that no draw depends on neighbours.

A counter-based generator: SplitMix64's output function (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number
generators") applied to seed and place.
"""

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
GAMMA = np.uint64(0x9E3779B97F4A7C15)


def mix(state: U64) -> U64:
    """Return SplitMix64's output for each state, [B]."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniforms(seeds_B: U64, places_B: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return numbers in [0, 1), [B]; 48 bits, so that a product with a total stays below the total in float64."""
    with np.errstate(over="ignore"):
        hashed = mix(mix(seeds_B) + (places_B.astype(np.uint64) + np.uint64(1)) * GAMMA)
    return (hashed >> np.uint64(16)).astype(np.float64) * 2.0**-48
