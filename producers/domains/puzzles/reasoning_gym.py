"""reasoning-gym's datasets as domains, where that library is installed (`make puzzles`).

Left out: `composite`, which is others; `game_of_life_halting`, whose score is 1 for any answer; `boxnet` and
`rush_hour`, which say no right answer. Levels are its curricula's, as far as those make valid items in little time. Its
own scoring is what the verifier asks, from the item as it stands in the task.
"""

import importlib.util
import json
import random
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache, partial
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

from producers.domains.catalogue import add
from producers.domains.interface import Domain, Item
from schemas import typed_json
from schemas.parts import Part
from schemas.tasks import VerifierSpec

CATEGORIES: MappingProxyType[str, str] = MappingProxyType(
    {
        "algebra": """complex_arithmetic intermediate_integration polynomial_equations polynomial_multiplication
            simple_equations simple_integration""",
        "algorithmic": """ab base_conversion binary_alternation binary_matrix caesar_cipher count_primes cryptarithm
            game_of_life graph_color group_anagrams isomorphic_strings jugs letter_counting letter_jumble
            manipulate_matrix number_filtering number_sorting palindrome_generation palindrome_partitioning pool_matrix
            ransom_note rotate_matrix rotten_oranges sentence_reordering spell_backward spiral_matrix string_insertion
            string_manipulation string_splitting string_synthesis word_ladder word_sequence_reversal word_sorting""",
        "arc": "arc_1d arc_agi rearc",
        "arithmetic": """basic_arithmetic bitwise_arithmetic calendar_arithmetic chain_sum count_bits decimal_arithmetic
            decimal_chain_sum dice fraction_simplification gcd gsm_symbolic lcm leg_counting number_format
            power_function prime_factorization products time_intervals""",
        "code": "bf codeio",
        "cognition": "color_cube_rotation figlet_font modulo_grid needle_haystack number_sequence rectangle_count "
        "rubiks_cube",
        "games": """countdown emoji_mystery futoshiki kakurasu knight_swap mahjong_puzzle maze mini_sudoku n_queens
            puzzle24 sokoban sudoku survo tower_of_hanoi tsumego""",
        "geometry": "advanced_geometry simple_geometry",
        "graphs": "course_schedule family_relationships largest_island path_star quantum_lock shortest_path",
        "induction": "acre list_functions",
        "logic": """aiw circuit_logic knights_knaves propositional_logic self_reference syllogism zebra_puzzles""",
        "probability": "coin_flip",
    }
)
MOST_LEVELS = 2
ONE_LEVEL = (
    *("acre", "gsm_symbolic", "jugs", "knight_swap", "list_functions", "modulo_grid", "propositional_logic"),
    *("puzzle24", "rubiks_cube"),
)
"""Where no more are valid, or made within a second."""
NO_CURRICULUM = ("acre", "gsm_symbolic", "knight_swap", "list_functions", "propositional_logic")
"""The third has one that makes no valid items, the last one that begins with four different ones."""
MOST_ITEMS, SLOW_TO_LIST = 1 << 20, 1000
MOST_OF: MappingProxyType[str, int] = MappingProxyType(
    dict.fromkeys(("acre", "word_ladder", "sokoban", "rearc", "arc_agi"), SLOW_TO_LIST)
)
"""Items of a dataset, where making many takes long."""
NOT_REPRODUCIBLE = (
    *("codeio", "isomorphic_strings", "knight_swap", "list_functions", "polynomial_multiplication", "ransom_note"),
    "word_ladder",
)
"""Another process draws another item from the same seed; the task has the whole of it all the same."""
SEED = 20
MOST_TRIES = 20
ANSWERS = ("possible_answer", "example_answer", "example_correct_answer")
"""Where the library keeps a right answer that is one of several."""
ASKED = "\nWrite your final answer, and nothing else, within these: <answer></answer>\n"


def draw(name: str, rng: random.Random, level: int) -> Item:
    """Return an item of a dataset. Raises what the library raises, where it fails over many items on end."""
    dataset, config = dataset_at(name, level)
    for attempt in range(MOST_TRIES):
        try:
            entry = dataset[rng.randrange(MOST_OF.get(name, MOST_ITEMS))]
            break
        except RuntimeError:
            if attempt == MOST_TRIES - 1:
                raise
    gold = gold_of(entry)
    puzzle = {"entry": typed_json.dumps(entry), "gold": gold}
    options = {"library": "reasoning_gym", "dataset": name, "config": config}
    part = Part(kind="puzzle", extract="tag:answer", expected=puzzle, options=options)
    return Item(
        prompt=entry["question"].rstrip() + ASKED,
        gold=(f"<answer>{gold}</answer>",),
        verifier=VerifierSpec(kind="parts", parts=(part,)),
        difficulty=level,
    )


def gold_of(entry: dict[str, Any]) -> str:
    """Return a right answer."""
    if entry["answer"] is not None:
        return str(entry["answer"])
    found = next(entry["metadata"][name] for name in ANSWERS if name in entry["metadata"])
    return found.strip() if isinstance(found, str) else json.dumps(found)


@lru_cache(maxsize=512)
def dataset_at(name: str, level: int) -> tuple[Any, str]:
    """Return a dataset, and what it was made with; the first asks for the library, which takes seconds."""
    from reasoning_gym.factory import DATASETS, create_curriculum

    given = {"seed": SEED, "size": MOST_OF.get(name, MOST_ITEMS)}
    dataset_class, config_class = DATASETS[name]
    if name in NO_CURRICULUM:
        config = config_class(**given)
    else:
        curriculum = create_curriculum(name)
        curriculum.set_global_level(level)
        config = curriculum.generate_configuration(given)
    return dataset_class(config=config), typed_json.dumps(said(config))


def said(config: Any) -> dict[str, Any]:
    """Return what a dataset is made of again to score: one item is enough, and objects are as they are by default."""
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    plain = {name: value for name, value in values.items() if not (is_dataclass(value) or isinstance(value, Enum))}
    return plain | {"size": 1}


def register() -> None:
    """Put every dataset into the catalogue."""
    source = f"reasoning-gym {version('reasoning-gym')}"
    for category, names in CATEGORIES.items():
        for name in names.split():
            add(
                Domain(
                    name=f"rg_{name}",
                    family=f"puzzle_{category}",
                    tier="puzzle",
                    draw=partial(draw, name),
                    levels=1 if name in ONE_LEVEL else MOST_LEVELS,
                    max_tokens=512,
                    source=source,
                    summary=f"reasoning-gym's {name}",
                    is_reproducible=name not in NOT_REPRODUCIBLE,
                )
            )


if importlib.util.find_spec("reasoning_gym") is not None:
    register()
