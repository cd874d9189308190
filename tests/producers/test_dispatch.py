from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.dispatch import Dispatch, level_at
from schemas.mixes import MILLION, DomainMix, MixRevised
from streams.curriculum.weights import in_millionths

IN_FLIGHT = 25


def mix_of(weights: dict[str, int], version: int = 1, **fields: int) -> MixRevised:
    domains = {name: DomainMix(family=name, weight=weight, **fields) for name, weight in weights.items()}
    return MixRevised(run_id="r", version=version, domains=domains, cause="groups", ends={})


def dispatched(dispatch: Dispatch, mix: MixRevised, num: int) -> list[str]:
    found = []
    for _ in range(num):
        choice = dispatch.choose(mix)
        assert choice is not None
        dispatch.note(choice.domain, mix)
        found.append(choice.domain)
    return found


def ended(mix: MixRevised, issued: dict[str, int]) -> MixRevised:
    """Return the mix of a moment when all that was issued has ended."""
    domains = {
        name: DomainMix(family=name, weight=one.weight, ended=issued.get(name, 0)) for name, one in mix.domains.items()
    }
    return MixRevised(run_id="r", version=mix.version + 1, domains=domains, cause="groups", ends={})


@given(parts=st.lists(st.integers(1, 100), min_size=1, max_size=12))
def test_everybody_has_its_share_to_within_what_is_in_flight_however_long_it_goes_on(parts: list[int]) -> None:
    weights = in_millionths({f"d{place}": float(part) for place, part in enumerate(parts)})
    dispatch, mix = Dispatch(), mix_of(weights)
    counts = Counter[str]()
    for _ in range(20):
        counts.update(dispatched(dispatch, mix, IN_FLIGHT))
        mix = ended(mix, counts)
        for name, weight in weights.items():
            assert abs(counts[name] - sum(counts.values()) * weight / MILLION) <= IN_FLIGHT + 1


def test_a_domain_whose_groups_do_not_end_gets_no_more_than_its_credit_bears() -> None:
    dispatch, weights = Dispatch(), {"slow": 500_000, "quick": 500_000}
    mix, counts = mix_of(weights), Counter[str]()
    for _ in range(50):
        counts.update(dispatched(dispatch, mix, 8))
        mix = ended(mix, {"quick": counts["quick"], "slow": max(0, counts["slow"] - 40)})
    assert 150 < counts["slow"] < 200 < counts["quick"]


def test_nothing_without_a_weight_is_issued_and_where_nothing_has_one_nothing_is() -> None:
    dispatch = Dispatch()
    assert set(dispatched(dispatch, mix_of({"a": 0, "b": MILLION}), 20)) == {"b"}
    assert dispatch.choose(mix_of({"a": 0, "b": 0}, version=2)) is None


def test_a_refund_is_a_group_more() -> None:
    weights = {"a": 500_000, "b": 500_000}
    dispatch = Dispatch()
    counts = Counter(dispatched(dispatch, mix_of(weights), 20))
    after = ended(mix_of(weights), counts)
    more = {
        name: DomainMix(family=name, weight=one.weight, ended=one.ended, refunded=6 if name == "a" else 0)
        for name, one in after.domains.items()
    }
    again = MixRevised(run_id="r", version=2, domains=more, cause="groups", ends={})
    counts.update(dispatched(dispatch, again, 20))
    assert counts["a"] - counts["b"] == pytest.approx(6, abs=4)
    assert counts["a"] > counts["b"]


@given(level=st.floats(0, 6), num=st.integers(50, 300))
def test_a_level_between_two_is_both_in_proportion(level: float, num: int) -> None:
    levels = [level_at(level, place) for place in range(num)]
    assert set(levels) <= {int(level), int(level) + 1}
    assert sum(levels) / num == pytest.approx(level, abs=3 / num + 0.01)


@given(seed=st.randoms(use_true_random=False), num=st.integers(1, 120))
def test_counting_what_is_on_the_log_in_any_order_is_what_was_counted_one_by_one(seed: object, num: int) -> None:
    mixes = [mix_of(in_millionths({"a": 1.0 + v, "b": 2.0, "c": 1.0 / v}), version=v) for v in range(1, 5)]
    live = Dispatch()
    log: list[tuple[str, int]] = []
    for index in range(num):
        mix = mixes[index * len(mixes) // num]
        choice = live.choose(mix)
        assert choice is not None
        live.note(choice.domain, mix)
        log.append((choice.domain, mix.version))
    seed.shuffle(log)  # type: ignore[attr-defined]
    back = Dispatch()
    by_domain, by_version = Counter(domain for domain, _ in log), Counter(version for _, version in log)
    back.note_many(by_domain, by_domain)
    for mix in mixes:
        back.earn(mix, by_version[mix.version])
    assert dispatched(back, mixes[-1], 30) == dispatched(live, mixes[-1], 30)
