import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from producers.domains.files import file_domain
from producers.tasks import check_domains, train_task
from schemas.config import Settings, TaskSettings
from schemas.errors import ConfigError
from schemas.taskfiles import TaskFile

ROWS = [{"question": f"What is {n} + {n}?", "answer": 2 * n, "hard": n % 2} for n in range(40)]
FIELDS = {"prompt": "question", "gold": "answer", "level": "hard", "kind": "numeric"}


def lines(path: Path, rows: list[object]) -> TaskFile:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return TaskFile(path=str(path), **FIELDS)


def test_rows_are_tasks_of_their_level_and_split(tmp_path: Path) -> None:
    domain = file_domain("sums", lines(tmp_path / "sums.jsonl", ROWS))
    assert (domain.levels, domain.tier) == (2, "file")
    rng = random.Random(1)
    seen = {
        held_out: {domain.item(rng, level, held_out).prompt for level in range(2) for _ in range(300)}
        for held_out in (False, True)
    }
    assert not seen[False] & seen[True]
    assert len(seen[False] | seen[True]) == 40
    item = domain.item(rng, 1, False)
    (part,) = item.verifier.parts
    assert (part.kind, part.extract, str(part.expected)) == ("numeric", "last_line", f"{float(item.gold[0])}")
    assert int(item.gold[0]) // 2 % 2 == 1


def test_parquet_is_read_like_json_lines(tmp_path: Path) -> None:
    parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "sums.parquet")
    from_parquet = file_domain("sums", TaskFile(path=str(tmp_path / "sums.parquet"), **FIELDS))
    from_lines = file_domain("sums", lines(tmp_path / "sums.jsonl", ROWS))
    for seed in range(20):
        assert from_parquet.item(random.Random(seed), 0, False) == from_lines.item(random.Random(seed), 0, False)


def test_a_row_may_say_itself_how_it_is_judged_and_worked_on(tmp_path: Path) -> None:
    row = {
        "question": "Say yes.", "answer": ["yes"], "verifier": {"kind": "exact_match", "expected": "yes"},
        "max_turns": 2, "wrongs": [["no"]],
    }  # fmt: skip
    item = file_domain("own", lines(tmp_path / "own.jsonl", [row] * 3)).draw(random.Random(0), 0)
    assert (item.verifier.kind, item.max_turns, item.gold, item.wrongs) == ("exact_match", 2, ("yes",), (("no",),))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"question": "a", "answer": 1}\n[]\n', r"t\.jsonl:2: Expected `object`"),
        (
            '{"question": "a", "answer": 1}\n\n{"question": "a"}\n',
            r"t\.jsonl:3: field 'answer' is missing; has question",
        ),
        ('{"question": "a", "answer": "x"}\n', r"t\.jsonl:1: could not convert"),
        ('{"question": "a", "answer": "NaN"}\n', r"t\.jsonl:1: answer 'NaN' is no number"),
        ('{"question": "a", "answer": 1, "execution": {"kind": "tools"}}\n', r"t\.jsonl:1: .*with 0 tools"),
        ('{"question": "a", "answer": 1, "hard": 2}\n', r"levels are \[2\]; wanted 0, 1, 2"),
        ('{"question": "a", "answer": 1, "max_turns": "many"}\n', r"t\.jsonl:1: .*max_turns"),
        ("", r"at least one task"),
    ],
)
def test_a_file_that_is_no_list_of_tasks_is_refused_by_its_line(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(ConfigError, match=why):
        file_domain("t", TaskFile(path=str(tmp_path / "t.jsonl"), **FIELDS))


def test_a_file_is_named_in_the_settings_and_issued_like_any_domain(tmp_path: Path) -> None:
    file = lines(tmp_path / "sums.jsonl", ROWS)
    tasks = TaskSettings(domains={"sums": 1.0}, files={"sums": file})
    settings = Settings(run="r", seed=3, tasks=tasks)
    check_domains(settings)
    task = train_task(settings, 5)
    assert (task.domain, task.family, task.verifier.kind) == ("sums", "files", "parts")
    missing = TaskSettings(domains={"sums": 1.0}, files={"sums": TaskFile(path="nowhere.jsonl")})
    with pytest.raises(ConfigError, match=r"nowhere\.jsonl does not exist"):
        check_domains(Settings(run="r", tasks=missing))
