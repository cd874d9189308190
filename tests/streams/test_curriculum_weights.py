import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.mixes import MILLION
from streams.curriculum.weights import Candidate, even_shares, in_millionths, softmax, weigh

CANDIDATES = st.lists(
    st.builds(
        Candidate,
        domain=st.integers(0, 10_000).map(str),
        family=st.sampled_from("abcde"),
        base=st.floats(0.1, 10),
        score=st.floats(0, 5),
        cost=st.floats(1e-3, 1e4),
        floor=st.sampled_from([0.0, 0.2, 1.5]),
        follows=st.booleans(),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda one: one.domain,
)
QUOTAS = st.dictionaries(st.sampled_from("abcx"), st.floats(0, 0.3), max_size=3)


def weights(candidates: list[Candidate], **changes: object) -> dict[str, int]:
    options: dict[str, object] = {"tau": 0.1, "cap": 4.0, "cost_exponent": 0.25, "quotas": {}}
    return weigh(candidates, **(options | changes))  # type: ignore[arg-type]


@given(candidates=CANDIDATES, quotas=QUOTAS)
def test_weights_are_whole_millionths_that_come_to_one_whatever_the_order(
    candidates: list[Candidate], quotas: dict[str, float]
) -> None:
    found = weights(candidates, quotas=quotas)
    assert sum(found.values()) == MILLION
    assert found.keys() == {one.domain for one in candidates}
    assert min(found.values()) >= 0
    assert weights(candidates[::-1], quotas=quotas) == found


@given(candidates=CANDIDATES)
def test_nobody_has_less_than_its_floor_or_more_than_its_cap(candidates: list[Candidate]) -> None:
    found, even = weights(candidates), even_shares(candidates, 1.0)
    asked = {one.domain: one.floor * even[one.domain] for one in candidates}
    down = min(1.0, 1.0 / (math.fsum(asked.values()) or 1.0))  # floors that come to more than there is give way alike
    for one in candidates:
        assert found[one.domain] >= asked[one.domain] * down * MILLION - 1
        assert found[one.domain] <= 4.0 * even[one.domain] * MILLION + 1


@given(candidates=CANDIDATES, share=st.floats(0, 1))
def test_a_family_with_a_quota_has_that_share(candidates: list[Candidate], share: float) -> None:
    family = candidates[0].family
    found = weights(candidates, quotas={family: share})
    of_family = sum(found[one.domain] for one in candidates if one.family == family)
    others = any(one.family != family for one in candidates)
    assert of_family == pytest.approx(share * MILLION if others else MILLION, abs=len(candidates))


def test_many_domains_of_one_family_do_not_drown_the_only_one_of_another() -> None:
    puzzles = [Candidate(domain=f"p{place:03d}", family="puzzles", score=0.5) for place in range(100)]
    found = weights([*puzzles, Candidate(domain="law", family="documents", score=0.5)])
    assert found["law"] == pytest.approx(MILLION / 2, abs=2)


def test_a_higher_score_or_a_lower_cost_weighs_more_and_a_higher_temperature_evens_out() -> None:
    two = [Candidate(domain="a", family="a", score=0.9), Candidate(domain="b", family="b", score=0.5)]
    wide = [Candidate(domain=f"c{place}", family=f"c{place}") for place in range(20)]
    sharp, even = weights([*two, *wide], cap=99.0), weights([*two, *wide], tau=100.0)
    assert sharp["a"] > sharp["b"]
    assert even["a"] == pytest.approx(even["b"], rel=0.01)
    dear = [Candidate(domain="a", family="a", cost=16.0), Candidate(domain="b", family="b", cost=1.0)]
    found = weights(dear, cost_exponent=0.5, cap=8.0)
    assert found["b"] == pytest.approx(4 * found["a"], abs=5)
    alike = weights(dear, cost_exponent=0.0)
    assert alike["a"] == alike["b"]


def test_a_domain_that_does_not_follow_its_score_has_its_floor() -> None:
    done = Candidate(domain="done", family="done", score=9.0, floor=0.2, follows=False)
    others = [Candidate(domain=f"o{place}", family=f"o{place}", floor=0.2) for place in range(3)]
    found = weights([done, *others])
    assert found["done"] == 0.2 * MILLION / 4


def test_twice_the_weight_in_the_settings_is_twice_the_share_where_scores_are_alike() -> None:
    found = weights([Candidate(domain="a", family="a", base=2.0), Candidate(domain="b", family="b", base=1.0)])
    assert found["a"] == pytest.approx(2 * found["b"], abs=3)


@given(scores=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20))
def test_a_softmax_is_a_distribution_for_scores_of_any_size(scores: list[float]) -> None:
    found = softmax(scores, 0.1)
    assert math.fsum(found) == pytest.approx(1.0)
    assert max(found) == found[scores.index(max(scores))]


@given(shares=st.dictionaries(st.text(max_size=3), st.floats(1e-9, 1e3), min_size=1, max_size=40))
def test_rounding_moves_nobody_by_a_whole(shares: dict[str, float]) -> None:
    whole, total = in_millionths(shares), math.fsum(shares.values())
    assert sum(whole.values()) == MILLION
    assert all(abs(whole[name] - share / total * MILLION) < 1 for name, share in shares.items())
