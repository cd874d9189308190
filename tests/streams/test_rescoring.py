"""The pure parts of rescoring: sums that merge, what groups become, what a scoring is, and how a scoring is bounded."""

import itertools
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.history.lean import Held
from consumers.history.rollouts import OpenGroup
from schemas.codec import encode_value
from schemas.config import VerifierSettings
from schemas.errors import ConfigError
from schemas.ids import derive_id
from schemas.scorings import LIVE, VerifierChoice, scoring_of
from schemas.tasks import VerifierSpec
from schemas.trajectory import Trajectory
from streams import verifiers
from streams.rescoring import comparison
from streams.rescoring.comparison import Comparison, Scored
from streams.rescoring.declared import Declared, check_declared
from streams.rescoring.forms import RewardForm
from streams.rescoring.groups import GroupTally, advantages
from streams.rescoring.judge import Judge, lack_of, scoring_for
from streams.rescoring.known import Known
from streams.rescoring.tallies import NUM_EXAMPLES, DomainTally
from streams.scoring import Finding, reward_id, reward_of
from streams.verifiers import Score, Verifier
from tests import samples

VALUES = st.sampled_from([None, 0.0, 0.1, 1 / 3, 0.5, 1.0])
PAIRS = st.lists(st.tuples(st.integers(0, 10**6), VALUES, VALUES), max_size=60, unique_by=lambda pair: pair[0])


def tally_of(pairs: list[tuple[int, float | None, float | None]]) -> Comparison:
    made = Comparison()
    for number, before, after in pairs:
        tally = made.domain(("verbs", "repair")[number % 2])
        was = (before, None if before is not None else "deadline")
        is_now = (after, None if after is not None else "verifier_error")
        tally.add(was, is_now)
        if before != after:
            tally.show(f"r/{number}", before, after)
        made.groups.add(f"t{number}", {0: before, 1: 0.5}, {0: after, 1: 0.5}, min_valid=2)
    return made


@settings(deadline=None)
@given(pairs=PAIRS, seed=st.integers(0, 1 << 30), num_shares=st.integers(1, 5))
def test_a_comparison_does_not_depend_on_how_the_work_was_divided(pairs: Any, seed: int, num_shares: int) -> None:
    whole = tally_of(pairs)
    shuffled = random.Random(seed).sample(pairs, len(pairs))
    merged = Comparison()
    for share in range(num_shares):
        merged.merge(tally_of(shuffled[share::num_shares]))
    assert merged == whole


@given(pairs=PAIRS)
def test_every_pair_agrees_or_flips_in_one_direction(pairs: Any) -> None:
    domains = tally_of(pairs).domains.values()
    assert sum(domain.num_compared for domain in domains) == len(pairs)
    assert sum(domain.num_agree for domain in domains) == sum(before == after for _, before, after in pairs)
    for domain in domains:
        assert sum(domain.before.bins) == domain.before.num_valid
        assert all(len(kept) <= NUM_EXAMPLES for kept in domain.examples.values())


GROUPS = st.lists(
    st.tuples(
        st.sampled_from(["verbs", "repair"]),
        st.sampled_from(["train", "held_out"]),
        st.dictionaries(st.integers(0, 2), VALUES, max_size=3),
        st.dictionaries(st.integers(0, 2), VALUES, max_size=3),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(shapes=GROUPS, most_alike=st.integers(1, 4))
def test_groups_that_are_counted_together_come_to_what_each_by_itself_does(shapes: Any, most_alike: int) -> None:
    together, apart = Comparison(), Comparison()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "MOST_ALIKE", most_alike)
        for number, (domain, split, before, after) in enumerate(shapes):
            task = samples.task(task_id=f"t{number}", domain=domain, split=split, num_samples=3)
            group = OpenGroup(task.task_id.encode())
            group.task, group.found = task, {s: Scored(v, reason_of(v, "now"), f"{s}") for s, v in after.items()}
            group.rewards = {
                s: samples.reward(s, value=v, invalid_reason=reason_of(v, "before")) for s, v in before.items()
            }
            together.add_group(group, min_valid=2)
            add_alone(apart, group)
    together.settle()
    assert together == apart


def add_alone(into: Comparison, group: OpenGroup) -> None:
    task = group.task
    assert task is not None
    was = {sample: reward.value for sample, reward in group.rewards.items()}
    for sample, scored in group.found.items():
        tally = into.domain(task.domain)
        if sample not in was:
            tally.fresh.add(scored.value, scored.reason)
            continue
        tally.add((was[sample], group.rewards[sample].invalid_reason), (scored.value, scored.reason))
        if was[sample] != scored.value:
            tally.show(f"{task.task_id}/{sample}", was[sample], scored.value, scored.detail)
    if group.found and task.split == "train" and len(was) == task.num_samples:
        after = {sample: scored.value for sample, scored in group.found.items()}
        into.groups.add(task.task_id, was, was | after, min_valid=2)


def reason_of(value: float | None, reason: str) -> str | None:
    return reason if value is None else None


def test_flips_have_a_direction_and_the_solved_ones_are_counted() -> None:
    tally = DomainTally()
    for before, after in itertools.permutations([None, 0.5, 1.0], 2):
        tally.add((before, None), (after, None))
    assert tally.flips == {"newly_valid": 2, "newly_invalid": 2, "up": 1, "down": 1}
    assert (tally.num_solved_gained, tally.num_solved_lost) == (1, 1)


@pytest.mark.parametrize(
    ("before", "after", "now", "no_longer", "changed"),
    [
        ((1.0, 1.0), (1.0, 0.0), 1, 0, 1),
        ((1.0, 0.0), (0.0, 0.0), 0, 1, 1),
        ((1.0, 0.0), (1.0, None), 0, 1, 1),
        ((1.0, 0.0), (1.0, 0.0), 0, 0, 0),
        ((1.0, 0.0), (0.75, 0.25), 0, 0, 1),
        ((1.0, None), (0.0, None), 0, 0, 0),
    ],
)
def test_groups_begin_or_cease_to_train(before: Any, after: Any, now: int, no_longer: int, changed: int) -> None:
    tally = GroupTally()
    tally.add("t", dict(enumerate(before)), dict(enumerate(after)), min_valid=2)
    assert (tally.num_now_train, tally.num_no_longer_train, tally.num_changed) == (now, no_longer, changed)
    assert (tally.now_train, tally.no_longer_train) == (["t"] * now, ["t"] * no_longer)


def test_advantages_are_over_the_mean_of_the_valid() -> None:
    assert advantages({0: 1.0, 1: None, 2: 0.0}, min_valid=2) == {0: 0.5, 2: -0.5}
    assert advantages({0: 1.0, 1: None, 2: 0.0}, min_valid=3) == {}


def test_a_sign_that_turns_is_counted_and_so_is_the_largest_change() -> None:
    tally = GroupTally()
    tally.add("t", {0: 1.0, 1: 0.0}, {0: 0.0, 1: 1.0}, min_valid=2)
    assert (tally.num_sign_flips, tally.max_change, tally.mean_change) == (2, 1.0, 1.0)


@given(entries=st.dictionaries(st.integers(0, 10**9), VALUES, max_size=50), asked=st.integers(0, 10**9))
def test_known_rewards_are_found_again_and_no_others(entries: dict[int, float | None], asked: int) -> None:
    known = Known()
    for number, value in entries.items():
        known.add(derive_id("c", "reward_scored", number), value, None if value is not None else f"why {number % 3}")
    known.add("00" * 16, 0.5, None)
    known.add("00" * 16, 0.75, None)
    known.freeze()
    assert len(known) == len(entries) + 1
    for number in {*entries, asked}:
        scored = known.get(derive_id("c", "reward_scored", number))
        assert (scored is not None) == (number in entries)
        if scored is not None:
            assert scored.value == entries[number]
            assert scored.reason == (None if scored.value is not None else f"why {number % 3}")
    zero = known.get("00" * 16)
    assert zero is not None
    assert zero.value == 0.5


SCORES = st.builds(
    Score,
    value=st.floats(0, 1),
    parts=st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=20),
    detail=st.text(max_size=300),
    abstained=st.lists(st.text(max_size=3), max_size=3).map(tuple),
    evidence=st.dictionaries(st.text(max_size=3), st.text(max_size=99), max_size=20),
)


@given(
    finding=st.one_of(
        st.builds(Finding, score=SCORES),
        st.builds(Finding, invalid_reason=st.sampled_from(["deadline", "?"]), detail=st.text(max_size=99)),
    ),
    sample=st.integers(0, 1 << 40),
    kind=st.sampled_from(["exact_match", "parts", "gone"]),
)
def test_a_form_makes_the_reward_and_the_id_that_the_verifier_service_makes(
    finding: Finding, sample: int, kind: str
) -> None:
    task = samples.task(verifier=VerifierSpec(kind=kind, expected="x"))
    reward = reward_of(task, sample, finding, scoring_id="mine")
    form = RewardForm(task, scoring_of(None, version=0, scoring_id="mine"))
    judgement = form.judgement(whole(), lambda _spec, _trajectory: finding)
    assert form.value(reward.rollout_id, sample, judgement) == encode_value(reward)
    assert form.event_id(reward.rollout_id) == reward_id(reward)
    assert judgement.scored == Scored(reward.value, reward.invalid_reason, reward.detail)


def test_what_looks_the_same_to_a_verifier_of_texts_is_judged_once_and_nothing_else_is() -> None:
    asked: list[str] = []

    def find(spec: VerifierSpec, trajectory: Trajectory) -> Finding:
        asked.append(trajectory.turns[0].record.text)
        return Finding(score=Score(value=0.5))

    def judge(kind: str, *changed: Trajectory) -> int:
        form = RewardForm(samples.task(verifier=VerifierSpec(kind=kind, expected="x")), scoring_of(None, version=0))
        asked.clear()
        for trajectory in changed:
            form.judgement(trajectory, find)
        return len(asked)

    other, cut, longer, run = whole(), whole(), whole(), whole()
    other.turns[0] = Held(samples.turn(text="13"))  # type: ignore[assignment]
    cut.ended[None] = Held(samples.ended(why="length"))  # type: ignore[assignment]
    longer.turns[1] = Held(samples.turn(turn=1, text="12"))  # type: ignore[assignment]
    run.executions[0] = Held(samples.execution())  # type: ignore[assignment]
    assert judge("exact_match", whole(), whole(), whole()) == 1
    assert judge("exact_match", whole(), other, cut, longer, run, run) == 6
    assert judge("stdout_match", whole(), whole()) == 2


def test_a_scorings_id_holds_its_configuration() -> None:
    ids = {
        scoring_of(choice, version=version).scoring_id
        for choice in (None, *(VerifierChoice(kind="exact_match", partial=p) for p in ("none", "lines")))
        for version in (1, 2)
    }
    assert len(ids) == 6
    chosen = scoring_of(VerifierChoice(kind="exact_match"), version=1, scoring_id="mine")
    assert chosen.digest == scoring_of(VerifierChoice(kind="exact_match"), version=1).digest
    for bad in (LIVE, "a b", "/x", "x" * 101):
        with pytest.raises(ConfigError, match="scoring id"):
            scoring_of(None, version=0, scoring_id=bad)


def test_a_choice_leaves_each_task_its_own_expectation_unless_it_says_one() -> None:
    own = VerifierSpec(kind="stdout_match", expected="7", partial="lines")
    assert VerifierChoice(kind="exact_match").spec_for(own) == VerifierSpec(kind="exact_match", expected="7")
    assert VerifierChoice(kind="exact_match", expected="8").spec_for(own).expected == "8"
    task = samples.task(verifier=own)
    assert scoring_of(None, version=0).spec_for(task) is own


def test_an_id_that_stands_for_something_else_is_refused() -> None:
    scoring = scoring_for(VerifierChoice(kind="exact_match"))
    check_declared(scoring, None)
    same = Declared(digest=scoring.digest, since_s=0.0)
    check_declared(scoring, same)
    with pytest.raises(ConfigError, match="another configuration"):
        check_declared(scoring, msgspec.structs.replace(same, digest="sha256:00"))
    with pytest.raises(ConfigError, match="whole groups"):
        check_declared(scoring, same, fills=LIVE)


def test_what_a_task_does_not_have_cannot_be_judged() -> None:
    textual, spec = samples.task(execution=None), VerifierSpec(kind="stdout_match", expected="7")
    assert "run none" in str(lack_of(textual, spec))
    assert lack_of(samples.task(), spec) is None
    assert lack_of(textual, VerifierSpec(kind="exact_match", expected="7")) is None
    assert "not known" in str(lack_of(textual, VerifierSpec(kind="gone", expected="7")))


def whole() -> Trajectory:
    trajectory = Trajectory()
    trajectory.turns[0] = Held(samples.turn(text="12"))  # type: ignore[assignment]
    trajectory.ended[None] = Held(samples.ended())  # type: ignore[assignment]
    return trajectory


def test_a_verifier_that_does_not_come_back_is_interrupted_and_the_next_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def score(spec: VerifierSpec, trajectory: Trajectory) -> Score:
        while spec.expected == "hang":
            pass
        return Score(value=1.0)

    registry = {**verifiers.VERIFIERS, "loop": Verifier(name="loop", version=1, score=score)}
    monkeypatch.setattr(verifiers, "VERIFIERS", registry)
    judge = Judge(timeout_s=0.05)
    with judge.deadline():
        for _ in range(2):
            hung = judge.finding(VerifierSpec(kind="loop", expected="hang"), whole())
            assert hung.invalid_reason == "verifier_timeout"
            fine = judge.finding(VerifierSpec(kind="loop", expected="12"), whole())
            assert fine.score == Score(value=1.0)


def test_settings_with_named_verifiers_are_read() -> None:
    tree = {"named": {"strict": {"kind": "exact_match"}}, "shadows": {"*": ["strict"]}}
    assert msgspec.convert(tree, VerifierSettings).named["strict"] == VerifierChoice(kind="exact_match")
