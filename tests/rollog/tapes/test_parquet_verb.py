"""The verb `parquet`, from a log on a real broker and from a tape of it."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rollog.exit_codes import ExitCode
from schemas.config import LogSettings
from tests.logs import new_log
from tests.rollog.tapes.recorded import LARGE, NUM_TURNS, record_some, rollog, tree


@pytest.fixture
def log(broker: str, namespace: str, tmp_path: Path) -> LogSettings:
    log = new_log(broker, namespace)
    record_some(log, tmp_path)
    return log


def test_the_log_and_a_tape_of_it_give_the_same_tables(log: LogSettings, tmp_path: Path) -> None:
    tape, live, taped = tmp_path / "run.tape", tmp_path / "live", tmp_path / "taped"
    assert rollog("tape", "export", str(tape), log=log, home=tmp_path).exit_code == ExitCode.OK
    done = tree(rollog("parquet", str(live), "--json", log=log, home=tmp_path))
    again = tree(rollog("parquet", str(taped), "--tape", str(tape), "--json", log=log, home=tmp_path))

    assert done["rows"] == again["rows"]
    assert done["rows"] == {
        "turn_generated.parquet": NUM_TURNS + 1,
        "reward_scored.parquet": 1,
        "step_taken.parquet": 1,
    }
    assert (done["num_undecodable"], again["num_undecodable"]) == (1, 1)
    for name in done["rows"]:
        by_id = [{row["_id"]: row for row in pq.read_table(folder / name).to_pylist()} for folder in (live, taped)]
        assert by_id[0] == by_id[1]


def test_what_the_log_keeps_as_a_claim_check_is_in_the_table(log: LogSettings, tmp_path: Path) -> None:
    tree(rollog("parquet", str(tmp_path / "t"), "--topics", "rollouts", "--json", log=log, home=tmp_path))
    texts = pq.read_table(tmp_path / "t" / "turn_generated.parquet")["text"].to_pylist()
    assert texts.count(LARGE) == 1


def test_only_what_is_older_than_until_is_there(log: LogSettings, tmp_path: Path) -> None:
    done = tree(
        rollog("parquet", str(tmp_path / "t"), "--until", "2020-01-01T00:00:00Z", "--json", log=log, home=tmp_path)
    )
    assert done["rows"] == {}
