import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.commands import CommandGiven
from schemas.config import load_settings
from schemas.curriculum import DomainFacts, SamplingBounds
from schemas.deadletters import DeadLetter
from schemas.errors import ConfigError
from schemas.ids import task_id
from schemas.mix_commands import Change, command_of
from schemas.mixes import MILLION
from schemas.tasks import SamplingParams
from streams.curriculum import lean
from streams.curriculum.domain import GRAIN, advantages
from streams.curriculum.fold import MixFold, Rules
from tests.streams.curriculum_facts import DOMAINS, RUN, fold_of, group, history, result, reward, run_of, task

RIGHT, WRONG, MIXED = (1.0,) * 4, (0.0,) * 4, (1.0, 0.0, 1.0, 0.0)


def given_command(*changes: Change, event_id: str = "c", target: str = RUN) -> lean.Command:
    return lean.Command(event_id, command_of(target, changes, given_by="test"))


def test_the_first_mix_gives_everybody_the_same_and_says_what_it_went_by() -> None:
    fold = fold_of()
    mix = fold.revise({"tasks[0]": 0})
    assert (mix.version, mix.cause, mix.ends) == (1, "start", {"tasks[0]": 0})
    assert sorted(one.weight for one in mix.domains.values()) == [333_333, 333_333, 333_334]
    assert '"run_id":"golden"' in mix.config
    assert fold.revise({}).config == "", "said again where nothing changed"


@given(p=st.integers(1, 7))
def test_the_advantage_of_right_and_wrong_is_as_the_formula_has_it(p: int) -> None:
    share = p / 8
    values = (1.0,) * p + (0.0,) * (8 - p)
    assert advantages(values) / 8 == pytest.approx(2 * math.sqrt(share * (1 - share)))
    assert advantages((0.5,) * 8) == 0.0


def climbed(fold: MixFold, values: tuple[float, ...], num_groups: int, first: int = 0) -> list[float]:
    """Return the level after each group that is sampled where the level is, with a revision after each."""
    levels = []
    for index in range(first, first + num_groups):
        sampled = {"level": int(fold.state("algebra").level), "mix_version": fold.version}
        for record in group(index, values, **sampled):
            fold.take(record)
        levels.append(fold.revise({}).domains["algebra"].level)
    return levels


def test_the_ladder_goes_up_where_all_is_solved_down_where_nothing_is_and_stays_within_its_levels() -> None:
    fold = fold_of()
    up = climbed(fold, RIGHT, 40)
    assert (up, up[-1]) == (sorted(up), 4.0)
    down = climbed(fold, WRONG, 40, first=40)
    assert (down, down[-1]) == (sorted(down, reverse=True), 0.0)
    assert climbed(fold_of(), MIXED, 3) == [0.0] * 3
    assert climbed(fold_of(eta=0.3, alpha=2.0), RIGHT, 1) == [round(0.3 * math.tanh(1.0) * GRAIN) / GRAIN]


def test_many_groups_that_come_at_once_take_one_stride_together() -> None:
    fold = fold_of(*(record for index in range(20) for record in group(index, RIGHT)), stride=0.5)
    assert fold.revise({}).domains["algebra"].level == 0.5
    for index in range(20, 40):
        for record in group(index, RIGHT):
            fold.take(record)
    assert fold.revise({}).domains["algebra"].level == 1.0


def test_groups_that_come_late_move_the_level_no_further_than_one_from_where_they_were_sampled() -> None:
    late = [record for index in range(60) for record in group(index, RIGHT, level=1)]
    fold = fold_of(given_command(Change(verb="level", name="algebra", value=2.5)), *late)
    assert fold.states["algebra"].level == 2.5
    low = fold_of(given_command(Change(verb="level", name="algebra", value=1.5)), *late, stride=9.0)
    assert low.states["algebra"].level == 2.0


def test_a_domain_with_one_level_stays_there() -> None:
    assert fold_of(*group(0, RIGHT), levels={}).states["algebra"].level == 0.0


def test_a_group_counts_once_whatever_comes_twice() -> None:
    records = group(0, MIXED)
    twice = fold_of(*records, *records, *[record for record in records for _ in range(2)])
    once = fold_of(*records)
    assert twice.open == once.open == {}
    assert twice.revise({}) == once.revise({})
    assert (once.states["algebra"].issued, once.states["algebra"].ended) == (1, 1)


def test_the_first_reward_of_a_sample_counts_and_others_of_other_scorings_and_runs_do_not() -> None:
    fold = fold_of(
        task(0),
        reward(0, 0, 1.0),
        reward(0, 0, 0.0),
        reward(0, 1, 0.0, scoring_id="exact_match@1-ab"),
        reward(0, 9, 0.0),
        reward(7, 1, 0.0),
        reward(0, 1, 1.5),
        *(reward(0, sample, 1.0) for sample in (1, 2, 3)),
    )
    assert fold.states["algebra"].solve_rate == 1.0


def test_a_task_under_a_scoring_goes_by_its_rewards() -> None:
    scored = [reward(0, sample, 1.0, scoring_id="s") for sample in range(4)]
    fold = fold_of(task(0, scoring_id="s"), *(reward(0, sample, 0.0) for sample in range(4)), *scored)
    assert fold.states["algebra"].solve_rate == 1.0


def test_held_out_tasks_and_those_of_other_runs_are_none_of_it() -> None:
    fold = fold_of(task(0, split="held_out"), task(1, run_id="other"), reward(0, 0, 1.0))
    assert (fold.states, fold.open) == ({}, {})


def test_what_ends_without_all_its_rewards_ends_all_the_same() -> None:
    name = task_id(RUN, "train", 1)
    letter = DeadLetter(
        stage="generator", topic="tasks", partition=0, offset=3, key=name.encode(), value=b"", error="x", reason="x"
    )
    fold = fold_of(
        task(0), reward(0, 0, 1.0), lean.End(task_id(RUN, "train", 0), "assembler", "deadline"), task(1), letter
    )
    state = fold.states["algebra"]
    assert (state.issued, state.ended, state.inflight, fold.open) == (2, 2, 0, {})
    assert state.solve_rate == 1.0
    late = lean.End(task_id(RUN, "train", 0), "learner", "stale")
    assert fold_of(task(0), late).states["algebra"].ended == 0, "a batch that is passed over ended before"


def test_cost_is_what_sandbox_and_verifier_take_and_a_shared_run_is_paid_for_once() -> None:
    fold = fold_of(
        task(0),
        run_of(0, 0, 500.0),
        run_of(0, 0, 500.0),
        run_of(0, 1, 500.0, copied_from="x"),
        run_of(0, 2, 7.0, cases=(lean.Outcome(1000.0), lean.Outcome(2000.0))),
        *(reward(0, sample, 1.0, score_s=0.25) for sample in range(4)),
    )
    assert fold.states["algebra"].cost_s == pytest.approx(0.5 + 3.0 + 1.0)


def test_old_groups_tell_nothing_of_todays_level() -> None:
    fold = fold_of(max_lag=2)
    for _ in range(5):
        fold.revise({})
    for record in group(0, RIGHT, mix_version=2):
        fold.take(record)
    assert (fold.states["algebra"].solve_rate, fold.states["algebra"].level) == (None, 0.0)
    assert len(fold.states["algebra"].window) == 1
    for record in group(1, RIGHT, mix_version=3):
        fold.take(record)
    assert fold.states["algebra"].level > 0


def test_the_window_holds_the_last_rollouts() -> None:
    fold = fold_of(window=12)
    for index, values in enumerate([WRONG] * 10 + [MIXED] * 3):
        for record in group(index, values):
            fold.take(record)
    state = fold.states["algebra"]
    assert (len(state.window), state.zero_variance, state.advantage) == (3, 0.0, 1.0)


def test_a_refund_is_never_more_than_every_second_group() -> None:
    dead = fold_of(*(record for index in range(40) for record in group(index, WRONG)), refund=True)
    assert (dead.states["algebra"].ended, dead.states["algebra"].refunded) == (40, 20)
    live = fold_of(*(record for index in range(40) for record in group(index, MIXED)), refund=True)
    assert live.states["algebra"].refunded == 0
    off = fold_of(*(record for index in range(40) for record in group(index, WRONG)), refund=False)
    assert off.states["algebra"].refunded == 0


def test_a_domain_solved_at_its_last_level_has_its_floor_until_it_is_not() -> None:
    fold = fold_of(given_command(Change(verb="level", name="algebra", value=4.0)))
    for index in range(60):
        for record in group(index, RIGHT, level=4):
            fold.take(record)
    mix = fold.revise({})
    assert (mix.domains["algebra"].status, mix.domains["algebra"].level) == ("frozen", 4.0)
    assert mix.domains["algebra"].weight == pytest.approx(0.2 * MILLION / 3, abs=1)
    for index in range(60, 70):
        for record in group(index, WRONG):
            fold.take(record)
    assert fold.revise({}).domains["algebra"].status == "active"


def test_a_domain_whose_verifier_gives_no_value_is_quarantined_until_a_person_resumes_it() -> None:
    bad = [record for index in range(20) for record in group(index, (None, 1.0, 0.0, 1.0))]
    fold = fold_of(*bad)
    mix = fold.revise({})
    assert (mix.domains["algebra"].status, mix.domains["algebra"].weight) == ("quarantined", 0)
    assert sum(one.weight for one in mix.domains.values()) == MILLION
    fold.take(given_command(Change(verb="resume", name="algebra")))
    assert fold.revise({}).domains["algebra"].status == "active"


def test_what_the_sandbox_could_not_run_says_nothing_of_the_verifier() -> None:
    rewards = [reward(0, 0, None, invalid_reason="infrastructure"), *(reward(0, sample, 1.0) for sample in (1, 2, 3))]
    assert fold_of(task(0), *rewards).states["algebra"].abstained == 0.0


def test_held_out_results_that_fall_twice_protect_the_domain_until_they_are_back() -> None:
    fold = fold_of(result(0, 0.5), result(10, 0.8), result(20, 0.6), hold=True)
    assert fold.revise({}).domains["algebra"].status == "active"
    fold.take(result(30, 0.6))
    mix = fold.revise({})
    assert (mix.domains["algebra"].status, mix.cause, mix.held) == ("protected", "status", True)
    assert mix.domains["algebra"].weight >= 1.5 * MILLION / 3 - 1
    assert max(mix.domains[name].weight for name in ("logs", "shop")) < MILLION / 3
    fold.take(result(40, 0.79))
    mix = fold.revise({})
    assert (mix.domains["algebra"].status, mix.held) == ("active", False)


@pytest.mark.parametrize("rates", [(0.8, 0.78, 0.78), (0.8, 0.6, 0.81), (0.8, 0.6, 0.79, 0.6)])
def test_a_fall_that_is_small_or_comes_once_is_none(rates: tuple[float, ...]) -> None:
    fold = fold_of(*(result(10 * place, rate) for place, rate in enumerate(rates)))
    assert fold.revise({}).domains["algebra"].status == "active"


def test_a_fall_within_twice_its_error_is_none() -> None:
    few = [result(10 * place, rate, num_tasks=16) for place, rate in enumerate((0.75, 0.6, 0.6))]
    assert fold_of(*few).revise({}).domains["algebra"].status == "active"


def test_a_result_that_comes_twice_or_late_counts_once() -> None:
    fold = fold_of(result(10, 0.8), result(20, 0.5), result(20, 0.5), result(10, 0.5))
    assert fold.revise({}).domains["algebra"].status == "active"


def test_training_reward_that_jumps_while_held_out_stays_is_not_believed() -> None:
    low = [record for index in range(40) for record in group(index, (0.25, 0.0, 0.0, 0.25))]
    high = [record for index in range(40, 80) for record in group(index, (1.0, 1.0, 1.0, 0.5))]
    flat = [result(0, 0.2), *high, result(10, 0.2), result(20, 0.21)]
    hacked = fold_of(*low, *flat, levels={})
    assert hacked.revise({}).domains["algebra"].status == "quarantined"
    learned = fold_of(*low, result(0, 0.2), *high, result(10, 0.2), result(20, 0.7), levels={})
    assert learned.revise({}).domains["algebra"].status == "active"


def test_commands_change_the_mix_once_and_say_so() -> None:
    fold = fold_of(*history(30))
    fold.revise({})
    command = given_command(Change(verb="pause", name="logs"), Change(verb="weight", name="shop", value=0.0))
    fold.take(command)
    mix = fold.revise({})
    assert (mix.cause, mix.domains["logs"].status) == ("command", "paused")
    assert {name: one.weight for name, one in mix.domains.items()} == {"algebra": MILLION, "logs": 0, "shop": 0}
    fold.take(given_command(Change(verb="resume", name="logs"), event_id="d"))
    fold.take(command)
    assert fold.revise({}).domains["logs"].status == "active", "the first command was obeyed twice"


def test_a_quota_is_set_and_taken_back_by_command_whatever_the_settings_say() -> None:
    fold = fold_of(quotas={"algebra": 0.1})
    assert fold.revise({}).domains["algebra"].weight == 100_000
    fold.take(given_command(Change(verb="quota", name="algebra", value=0.5)))
    assert fold.revise({}).domains["algebra"].weight == 500_000
    fold.take(given_command(Change(verb="quota", name="algebra"), event_id="d"))
    assert fold.revise({}).domains["algebra"].weight == pytest.approx(MILLION / 3, abs=1)


def test_a_level_is_set_by_command_within_its_bounds() -> None:
    fold = fold_of(given_command(Change(verb="level", name="logs", value=2.5)))
    assert fold.revise({}).domains["logs"].level == 2.5
    fold.take(given_command(Change(verb="level", name="logs", value=99.0), event_id="d"))
    assert fold.revise({}).domains["logs"].level == 4.0


def test_commands_of_others_and_those_that_cannot_be_read_change_nothing() -> None:
    strange = CommandGiven(command="set_mix", target=RUN, arguments={"colour.logs": 1.0}, given_by="test")
    fold = fold_of(given_command(Change(verb="pause", name="logs"), target="other"), lean.Command("x", strange))
    assert {one.status for one in fold.revise({}).domains.values()} == {"active"}


def test_families_are_what_tasks_say() -> None:
    mix = fold_of(task(0, "algebra", family="maths"), task(1, "logs", family="maths")).revise({})
    assert [mix.domains[name].family for name in DOMAINS] == ["maths", "maths", "shop"]
    assert [mix.domains[name].weight for name in DOMAINS] == [250_000, 250_000, 500_000]


def test_what_was_never_measured_is_thought_to_teach_most() -> None:
    mix = fold_of(*group(0, MIXED, "algebra"), *group(1, WRONG, "logs")).revise({})
    weights = [mix.domains[name].weight for name in ("shop", "algebra", "logs")]
    assert weights == sorted(weights, reverse=True)


def test_sampling_adapts_within_its_bounds_and_comes_back() -> None:
    bounds = SamplingBounds(num_samples=(4, 16), temperature=(0.5, 1.2), max_tokens=(32, 128))
    fold = fold_of(adapt=True, levels={}, bounds=bounds, window=16)
    cut = [lean.Ended(task_id(RUN, "train", index), 0, "length", 9) for index in range(200)]
    for index in range(80):
        for record in [group(index, WRONG)[0], cut[index], *group(index, WRONG)[1:]]:
            fold.take(record)
        fold.revise({})
    one = fold.revise({}).domains["algebra"]
    assert one.sampling is not None
    assert (one.num_samples, one.sampling.temperature, one.sampling.max_tokens) == (16, 1.2, 128)
    assert fold.revise({}).domains["logs"].num_samples == 0
    for index in range(80, 160):
        for record in group(index, MIXED):
            fold.take(record)
        fold.revise({})
    assert (fold.revise({}).domains["algebra"].num_samples, one.sampling) == (0, one.sampling)
    assert fold.revise({}).domains["algebra"].sampling is None


def test_sampling_stays_as_it_is_unless_it_may_adapt() -> None:
    fold = fold_of(*(record for index in range(40) for record in group(index, WRONG)))
    assert fold.revise({}).domains["algebra"].sampling is None
    assert fold.rules.sampling == SamplingParams()


@given(seed=st.integers(0, 50), cuts=st.lists(st.integers(0, 160), max_size=5))
def test_the_same_records_give_the_same_revisions(seed: int, cuts: list[int]) -> None:
    records = history(32, seed)
    first, second = fold_of(), fold_of()
    for fold in (first, second):
        for place, record in enumerate(records):
            fold.take(record)
            if place in cuts:
                fold.revise({"rewards[0]": place})
    mix = first.revise({})
    assert mix == second.revise({})
    assert sum(one.weight for one in mix.domains.values()) in (0, MILLION)
    assert all(0 <= one.level <= 4 for one in mix.domains.values())
    assert sum(one.ended for one in mix.domains.values()) == 32


def test_rules_take_from_the_catalogue_what_the_settings_leave_open() -> None:
    settings = load_settings(
        flags=["tasks.domains={a = 1, b = 2}", "curriculum.levels={b = 9}", "tasks.level=2", "sampling.max_tokens=64"]
    )
    facts = {
        "a": DomainFacts(family="f", levels=4, max_tokens=512),
        "b": DomainFacts(family="g", levels=4, max_tokens=32),
    }
    found = Rules.of(settings, facts)
    assert found.curriculum.levels == {"a": 4, "b": 9}
    assert found.curriculum.families == {"a": "f", "b": "g"}
    assert (found.max_tokens, found.level) == ({"a": 512}, 2)
    mix = MixFold(found).revise({})
    assert {name: (one.family, one.level) for name, one in mix.domains.items()} == {"a": ("f", 2.0), "b": ("g", 2.0)}
    assert mix.domains["b"].weight == pytest.approx(2 * mix.domains["a"].weight, abs=3)


@pytest.mark.parametrize(
    "flag",
    [
        "curriculum.every=0",
        "curriculum.cap=0.5",
        "curriculum.floor=1.5",
        "curriculum.tau=0",
        "curriculum.quotas={a = 0.7, b = 0.7}",
        "curriculum.levels={chess = 3}",
        "curriculum.levels={verbs = 0}",
        "curriculum.bounds={num_samples = [1, 8]}",
        "curriculum.bounds={temperature = [1.0, 0.5]}",
    ],
)
def test_settings_that_cannot_work_are_refused_by_their_name(flag: str) -> None:
    with pytest.raises(ConfigError, match=flag.partition("=")[0].replace("{", "")):
        load_settings(flags=[flag])
