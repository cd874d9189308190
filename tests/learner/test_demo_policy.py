import json
import random
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerFast

from learner import demo_policy
from producers.domains.demo import repair, verbs
from producers.domains.demo.numbers import is_held_out

POLICY = Path(__file__).parents[2] / "demo" / "policy"


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(POLICY)


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    return AutoModelForCausalLM.from_pretrained(POLICY)


def test_every_text_of_the_demo_comes_back_from_the_committed_tokenizer(tokenizer: PreTrainedTokenizerFast) -> None:
    rng = random.Random(0)
    for _ in range(300):
        for text, _ in demo_policy.example(rng):
            ids = tokenizer.encode(text, add_special_tokens=False)
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids) == text
    for prompt in (repair.repair(rng, 2, True).prompt, verbs.verbs(rng, 2, True).prompt):
        assert tokenizer.decode(tokenizer.encode(prompt, add_special_tokens=False)) == prompt


def test_what_the_tokenizer_does_not_know_is_one_unknown_token_per_word_or_character(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    ids = tokenizer.encode("\nNameError: name é|", add_special_tokens=False)
    assert ids.count(tokenizer.unk_token_id) == 3
    assert len(ids) == 8


def test_a_special_token_spelled_out_in_a_text_stays_text(tokenizer: PreTrainedTokenizerFast) -> None:
    ids = tokenizer.encode("print<eos>|<pad>", add_special_tokens=False)
    assert not {tokenizer.eos_token_id, tokenizer.pad_token_id} & set(ids)


def test_the_committed_tokenizer_is_the_one_that_the_script_makes(tokenizer: PreTrainedTokenizerFast) -> None:
    made = demo_policy.make_tokenizer()
    assert json.loads(made.backend_tokenizer.to_str()) == json.loads(tokenizer.backend_tokenizer.to_str())


def test_the_committed_weights_are_a_quarter_of_a_million_and_write_a_program(
    tokenizer: PreTrainedTokenizerFast, model: LlamaForCausalLM
) -> None:
    assert 200_000 < sum(p.numel() for p in model.parameters()) < 300_000
    assert model.config.vocab_size == len(tokenizer)
    prompt_ids = tokenizer("call f 12 34 mode q|", add_special_tokens=False, return_tensors="pt").input_ids
    with torch.no_grad():
        ids = model.generate(prompt_ids, do_sample=False, max_new_tokens=20)[0, prompt_ids.shape[1] :]
    assert ids[-1] == tokenizer.eos_token_id
    assert tokenizer.decode(ids[:-1]) == "print(f(12,34,'q'))"


def test_the_committed_files_are_small_enough_to_live_in_the_repository() -> None:
    assert sum(path.stat().st_size for path in POLICY.iterdir()) < 2_000_000


def test_supervision_uses_the_words_of_the_domains_and_none_of_the_numbers_of_evaluation() -> None:
    assert {verb: function.__name__ for verb, function in verbs.VERBS.items()} == demo_policy.OPERATIONS
    assert demo_policy.MODES == repair.MODES
    rng = random.Random(1)
    assert not any(is_held_out(*demo_policy.training_pair(rng)) for _ in range(2000))


def test_supervision_never_shows_what_reinforcement_has_to_teach() -> None:
    """A verb with numbers is followed by every function alike, an error by every mode alike."""
    rng = random.Random(2)
    called: dict[tuple[str, str], int] = {}
    for _ in range(20_000):
        segments = demo_policy.example(rng)
        words = segments[0][0].split()
        if words[0] in demo_policy.OPERATIONS and len(words) == 3:
            key = (words[0], segments[1][0].partition("(")[2].partition("(")[0])
        elif len(segments) == 4:
            key = (segments[2][0][-2], segments[3][0][-4])
        else:
            continue
        called[key] = called.get(key, 0) + 1
    verb_counts = [called[verb, name] for verb in demo_policy.OPERATIONS for name in demo_policy.OPERATIONS.values()]
    mode_counts = [called[named, used] for named in demo_policy.MODES for used in demo_policy.MODES]
    for counts in (verb_counts, mode_counts):
        mean = sum(counts) / len(counts)
        assert all(0.5 * mean < count < 1.5 * mean for count in counts)
