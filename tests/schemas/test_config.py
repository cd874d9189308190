import json
from pathlib import Path

import pytest

from schemas.config import Settings, load_settings, resolved
from schemas.errors import ConfigError
from schemas.objectives import DecoupledPpo

ROOT = Path(__file__).parents[2]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_later_files_and_then_flags_win(tmp_path: Path) -> None:
    first = write(tmp_path / "a.toml", 'run = "one"\n[learner]\nsteps = 5\nlearning_rate = 0.1\n')
    second = write(tmp_path / "b.toml", "[learner]\nsteps = 6\n")
    settings = load_settings([first, second], ["learner.learning_rate=0.2", "run=two words"])
    assert (settings.learner.steps, settings.learner.learning_rate, settings.run) == (6, 0.2, "two words")


def test_a_table_of_domains_replaces_the_default_one() -> None:
    assert load_settings(flags=["tasks.domains={verbs = 2}"]).tasks.domains == {"verbs": 2}


def test_a_flag_for_one_domain_leaves_the_others_of_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", "[tasks.domains]\nverbs = 1\nrepair = 1\n")
    assert load_settings([file], ["tasks.domains.repair=2"]).tasks.domains == {"verbs": 1, "repair": 2}
    assert load_settings([file], ["tasks.domains={repair = 2}"]).tasks.domains == {"repair": 2}


def test_an_objective_is_chosen_by_its_type() -> None:
    assert load_settings(
        flags=["learner.objective={type='decoupled_ppo', clip=0.1}"]
    ).learner.objective == DecoupledPpo(clip=0.1)


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("learner.stepz=3", "unknown field `stepz`"),
        ("learner.steps=many", "Expected `int`"),
        ("learner.objective.type=reinforce", "type"),
        ("learner.groups_per_step=0", "wanted more than 0"),
        ("assembler.min_valid=9", "between 2 and num_samples"),
        ("assembler.grace_s=1", "make assembler.grace_s the larger"),
        ("executor.sandbox=unsafe-subprocess", "allow_unsafe"),
        ("learner.checkpoint_every=9", "raise max_staleness to at least 8"),
        ("tasks.domains={}", "at least one domain"),
        ("steps", "wanted FIELD=VALUE"),
    ],
)
def test_what_cannot_work_is_refused_with_a_remedy(flag: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_settings(flags=[flag])


def test_a_file_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        load_settings([tmp_path / "nowhere.toml"])
    with pytest.raises(ConfigError, match=r"broken\.toml"):
        load_settings([write(tmp_path / "broken.toml", "a = = 1")])


def test_resolved_settings_are_whole_and_hold_no_secret() -> None:
    settings = load_settings(flags=['log.client={"sasl.password" = "hush"}'])
    text = resolved(settings)
    assert "hush" not in text
    assert "hush" not in repr(settings)
    assert "sasl.password" in repr(settings)
    assert set(json.loads(text)) == set(Settings.__struct_fields__)


@pytest.mark.parametrize("path", sorted(ROOT.glob("demo/*.toml")) + sorted(ROOT.glob("deploy/**/*.toml")), ids=str)
def test_every_shipped_file_of_settings_loads(path: Path) -> None:
    load_settings([path])
