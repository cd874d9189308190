from array import array
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.forking import Sifted, merged, num_kept, number, thinned


def sifted(*batches: tuple[int, int, str]) -> Sifted:
    """Return what batches of (partition, ms, domain) come to."""
    made = Sifted()
    for partition, issued_ms, domain in batches:
        made.add(partition, issued_ms, domain)
    return made


def test_partitions_are_merged_by_time_and_each_keeps_its_own_order() -> None:
    keys = {0: array("q", [10, 30, 20]), 1: array("q", [15, 25]), 2: array("q")}
    # What is second on partition 0 was issued late: it holds up the third, which was over after it.
    assert list(merged(keys)) == [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), max_size=60))
def test_merging_loses_nothing_and_swaps_nothing_within_a_partition(batches: list[tuple[int, int]]) -> None:
    found = sifted(*((partition, ms, "d") for partition, ms in batches))
    order = list(merged(found.keys))
    assert len(order) == len(set(order)) == len(batches)
    for partition in found.keys:
        assert [index for p, index in order if p == partition] == list(range(len(found.keys[partition])))


@pytest.mark.parametrize(
    ("mix", "kept"),
    [
        ({}, {"a": 6, "b": 3}),
        ({"a": 1, "b": 0}, {"a": 6}),
        ({"a": 1.0, "b": 1.0}, {"a": 3, "b": 3}),
        ({"a": 2, "b": 1}, {"a": 6, "b": 3}),
        ({"a": 4, "b": 1}, {"a": 6, "b": 1}),
        ({"b": 0.1}, {"b": 3}),
        ({"a": 1, "c": 1}, {}),
    ],
)
def test_a_mix_keeps_as_much_as_its_weights_allow(mix: dict[str, float], kept: dict[str, int]) -> None:
    domains = ["a", "a", "b"] * 3
    found = Counter(domain for domain, is_kept in zip(domains, thinned(domains, mix), strict=True) if is_kept)
    assert found == kept


@given(st.lists(st.sampled_from("ab"), max_size=200), st.integers(1, 5), st.integers(1, 5))
def test_what_a_mix_keeps_is_evenly_spread(domains: list[str], a: int, b: int) -> None:
    kept = thinned(domains, {"a": a, "b": b})
    for domain in "ab":
        mine = [is_kept for is_kept, name in zip(kept, domains, strict=True) if name == domain]
        share = sum(mine) / len(mine) if mine else 0.0
        running = 0
        for place, is_kept in enumerate(mine, 1):
            running += is_kept
            assert abs(running - share * place) < 1


def test_numbers_are_the_places_of_what_is_kept() -> None:
    found = sifted((0, 10, "a"), (0, 30, "b"), (1, 20, "a"), (1, 40, "a"))
    assert found.by_domain == {"a": 3, "b": 1}
    every = number(found, {})
    assert {partition: places.tolist() for partition, places in every.items()} == {0: [0, 2], 1: [1, 3]}
    some = number(found, {"a": 1})
    assert {partition: places.tolist() for partition, places in some.items()} == {0: [0, -1], 1: [1, 2]}
    assert num_kept(some) == 3
    assert number(sifted(), {"a": 1}) == {}
