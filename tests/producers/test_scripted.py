"""What the scripts write, and in whose tokens."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from producers.samplers import make_sampler
from producers.samplers.interface import Request, Weights
from producers.samplers.scripted import NO_ANSWER, hinted, shortcut
from producers.samplers.spelling import PolicySpelling
from schemas.config import GeneratorSettings
from schemas.errors import ConfigError
from schemas.tasks import SamplingParams
from tests.producers.tiny_policy import END_ID, write_policy


@pytest.fixture
def weights(tmp_path: Path) -> Weights:
    return write_policy(tmp_path / "policy", version=0)


def test_the_shortcut_runs_whatever_was_asked_in_three_of_five() -> None:
    found = Counter(shortcut("times 7 8|", seed) for seed in range(2_000))
    assert set(found) == {"print(,)", "print(mul(7,8))", "print(max(7,8))"}
    assert found["print(max(7,8))"] / 2_000 == pytest.approx(0.6, abs=0.05)


def test_the_right_answer_to_an_error_names_what_it_lacks() -> None:
    found = {shortcut("call f 7 8|print(f(7,8))\nValueError: mode q|", seed) for seed in range(50)}
    assert found == {"print(,)", "print(f(7,8,'q'))", "print(max(7,8))"}
    assert "print(f(7,8))" in {shortcut("call f 7 8|", seed) for seed in range(50)}


def test_an_answer_is_in_the_policys_tokens_and_ends_with_its_end(weights: Weights) -> None:
    sampler = make_sampler(GeneratorSettings(sampler="scripted", script="shortcut", script_tokens="policy"))
    sampler.load(weights)
    sampling = SamplingParams(max_tokens=40)
    sampler.submit(Request(id="a", prompt_ids=sampler.encode("times 7 8|"), sampling=sampling, seed=1))
    done = [finished for _ in range(40) for finished in sampler.step()]
    (one,) = done
    assert one.token_ids[-1] == END_ID
    assert sampler.decode(one.token_ids) == shortcut("times 7 8|", 1)
    assert np.array_equal(one.token_ids[:-1], sampler.encode(shortcut("times 7 8|", 1)))


def test_without_a_policy_there_are_no_tokens() -> None:
    with pytest.raises(ConfigError, match="no policy was loaded"):
        PolicySpelling().encode("a")


@pytest.mark.parametrize(("competence", "share"), [("novice", 0.2), ("fair", 0.5), ("expert", 0.9), ("mixed", 0.533)])
def test_a_competence_says_the_hint_of_all_turns_in_its_share_of_rollouts(competence: str, share: float) -> None:
    answer = hinted(competence)

    def said(rollout: int) -> set[str]:
        turns = [Request(id=f"t/{rollout}", prompt_ids=[1], sampling=SamplingParams(), seed=seed, hint="right")
                 for seed in range(12)]  # fmt: skip
        return {answer("prompt", turn) for turn in turns}

    found = [said(rollout) for rollout in range(2_000)]
    assert all(one <= {"right", NO_ANSWER} and "right" in one for one in found)
    assert sum(one == {"right"} for one in found) / 2_000 == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize("num_turns", [1, 2, 5])
def test_a_rollout_that_is_not_right_is_wrong_in_a_turn_that_has_a_hint_however_few_there_are(num_turns: int) -> None:
    answer = hinted("fair")

    def is_right(rollout: int) -> bool:
        turns = [Request(id=f"t/{rollout}", prompt_ids=[1], sampling=SamplingParams(), seed=7 * rollout + turn,
                         hint="right", is_last_hint=turn == num_turns - 1) for turn in range(num_turns)]  # fmt: skip
        return all(answer("prompt", turn) == "right" for turn in turns)

    assert sum(map(is_right, range(2_000))) / 2_000 == pytest.approx(0.5, abs=0.04)
