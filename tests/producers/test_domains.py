import contextlib
import io
import random
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from transformers import AutoTokenizer

from producers.domains import Item, get_domain
from producers.domains.demo.numbers import draw_pair, is_held_out
from producers.domains.demo.repair import MODES
from producers.domains.demo.verbs import VERBS
from schemas.errors import ConfigError

DEMO = ("repair", "verbs")
POLICY = Path(__file__).parents[2] / "demo" / "policy"
EVERY_DOMAIN = pytest.mark.parametrize("name", DEMO)


def draw(name: str, seed: int, *, held_out: bool = False, num: int = 40, level: int = 0) -> list[Item]:
    rng = random.Random(seed)
    return [get_domain(name).item(rng, level, held_out) for _ in range(num)]


def numbers_of(item: Item) -> tuple[int, int]:
    a, b = re.findall(r"\d+", item.prompt)
    return int(a), int(b)


def run_trusted(item: Item, code: str) -> str:
    """Run a program that this test wrote, in this process, and return what it prints."""
    assert item.execution is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(item.execution.prelude + code, {})
    return printed.getvalue().strip()


@EVERY_DOMAIN
def test_the_same_seed_is_the_same_item_and_another_seed_is_another(name: str) -> None:
    assert draw(name, 7) == draw(name, 7)
    assert draw(name, 7) != draw(name, 8)


def test_the_same_seed_is_the_same_item_in_another_process() -> None:
    program = (
        "import random, sys, msgspec; from producers.domains import get_domain; names = ('repair', 'verbs');"
        "rng = random.Random(11);"
        "items = [get_domain(n).item(rng, 0, h) for n in names for h in (False, True) for _ in range(20)];"
        "sys.stdout.buffer.write(msgspec.json.encode(items))"
    )
    there = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, cwd=POLICY.parents[1])
    rng = random.Random(11)
    here = [get_domain(n).item(rng, 0, h) for n in DEMO for h in (False, True) for _ in range(20)]
    assert msgspec.json.decode(there.stdout, type=list[Item]) == here


@EVERY_DOMAIN
def test_numbers_of_training_and_evaluation_never_meet(name: str) -> None:
    training = {numbers_of(item) for item in draw(name, 1, num=3000)}
    evaluation = {numbers_of(item) for item in draw(name, 2, held_out=True, num=1000)}
    assert len(evaluation) > 500
    assert not training & evaluation


def test_the_split_is_a_fifth_of_all_pairs_and_draws_keep_to_it_at_every_level() -> None:
    num_held_out = sum(is_held_out(a, b) for a in range(1, 101) for b in range(1, 101))
    assert num_held_out == 100 * 100 // 5
    rng = random.Random(3)
    for level in range(3):
        for held_out in (False, True):
            pairs = [draw_pair(rng, level, held_out) for _ in range(200)]
            assert {is_held_out(a, b) for a, b in pairs} == {held_out}
            assert 10 ** (level + 1) < max(map(max, pairs)) < 10 ** (level + 2)


def test_the_gold_of_a_verb_is_what_its_program_prints_in_one_turn() -> None:
    seen = set()
    for item in draw("verbs", 4, num=200):
        verb = item.prompt.partition(" ")[0]
        a, b = numbers_of(item)
        assert run_trusted(item, f"print({VERBS[verb].__name__}({a},{b}))") == item.verifier.expected
        assert item.max_turns == 1
        seen.add(verb)
    assert seen == set(VERBS)
    assert len(seen) >= 8


def test_a_repair_names_the_mode_that_makes_the_second_turn_right() -> None:
    seen = set()
    for item in draw("repair", 5, num=100):
        a, b = numbers_of(item)
        with pytest.raises(ValueError, match=r"^mode [p-u]$") as error:
            run_trusted(item, f"print(f({a},{b}))")
        mode = str(error.value).removeprefix("mode ")
        assert run_trusted(item, f"print(f({a},{b},'{mode}'))") == item.verifier.expected
        assert item.max_turns == 2
        for wrong in set(MODES) - {mode}:
            with pytest.raises(ValueError, match=f"^mode {mode}$"):
                run_trusted(item, f"print(f({a},{b},'{wrong}'))")
        seen.add(mode)
    assert seen == set(MODES)


@EVERY_DOMAIN
def test_prompts_are_made_of_tokens_that_the_demo_policy_knows(name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(POLICY)
    for held_out in (False, True):
        for item in draw(name, 6, held_out=held_out):
            ids = tokenizer.encode(item.prompt, add_special_tokens=False)
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids) == item.prompt


def test_an_unknown_domain_is_refused_with_the_names_of_the_known() -> None:
    with pytest.raises(ConfigError, match=r"'riddles'.*repair.*verbs"):
        get_domain("riddles")
