"""`rollog rescore` on a real broker: what it says, what it writes, what it refuses, and what a kill leaves."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from consumers.reader import end_offsets
from producers.publisher import Publisher
from rollog.exit_codes import ExitCode
from schemas.codec import encode_value
from schemas.config import LogSettings
from schemas.events import Event
from schemas.ids import derive_id
from schemas.rewards import RewardScored
from schemas.scorings import LIVE
from tests.histories import NUM_SAMPLES, VALUES, answer_of, finding_of, history, task_events
from tests.logs import new_log, read_all

NUM_TASKS = 120
NUM_ROLLOUTS = NUM_TASKS * NUM_SAMPLES
STRICT = '{"kind": "exact_match"}'
DYING = Path(__file__).parents[1] / "rollog" / "killed_rescore.py"


def rollog(log: LogSettings, home: Path, *arguments: str, dies_at: int = 0) -> subprocess.CompletedProcess[str]:
    program = [str(DYING), str(dies_at)] if dies_at else ["-m", "rollog.cli"]
    places = ["--set", f"log.namespace={log.namespace}", "--set", f"log.partitions={log.partitions}"]
    return subprocess.run(
        [sys.executable, *program, *arguments, *places, "--home", str(home)],
        env={**os.environ, "ROLLOG_BOOTSTRAP": log.bootstrap, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def rescore(log: LogSettings, home: Path, *arguments: str, code: int = 0, dies_at: int = 0) -> dict[str, Any]:
    done = rollog(log, home, "rescore", "--json", *arguments, dies_at=dies_at)
    assert done.returncode == code, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.fixture
def log(broker: str, namespace: str, tmp_path: Path) -> LogSettings:
    made = new_log(broker, namespace, partitions=3)
    write(made, tmp_path, list(history(NUM_TASKS)))
    return made


def write(log: LogSettings, home: Path, events: list[Event[Any]]) -> None:
    publisher = Publisher(log, source="test", blob_dir=home / "blobs")
    publisher.send_all(events)
    publisher.close()


def rewards(log: LogSettings, home: Path, scoring_id: str) -> dict[str, RewardScored]:
    events = read_all(log, "rewards", home / "blobs", dedupe=0)
    mine = [event for event in events if event.record.scoring_id == scoring_id]
    assert len({event.id for event in mine}) == len(mine), "an event was written twice"
    return {event.id: event.record for event in mine}


def strict(index: int, sample: int) -> float:
    return 1.0 if answer_of(index, sample) == "right" else 0.0


def expected_flips() -> dict[str, int]:
    flips = {"up": 0, "down": 0, "newly_valid": 0, "newly_invalid": 0}
    for index in range(NUM_TASKS):
        for sample in range(NUM_SAMPLES):
            score = finding_of(index, sample).score
            if score is None:
                flips["newly_valid"] += 1
            elif strict(index, sample) < score.value:
                flips["down"] += 1
    return flips


def test_without_apply_it_compares_and_writes_nothing(log: LogSettings, tmp_path: Path) -> None:
    before = end_offsets(log, ["rewards", "commands"])
    said = rescore(log, tmp_path, "--verifier", STRICT)
    assert end_offsets(log, ["rewards", "commands"]) == before
    flips = {name: sum(domain["flips"][name] for domain in said["domains"].values()) for name in expected_flips()}
    assert flips == expected_flips()
    assert said["num_scored"] == NUM_ROLLOUTS
    assert (said["num_written"], said["applied"], said["num_open_groups"]) == (0, False, 0)
    assert said["scoring_id"].startswith("exact_match@1-")
    groups = said["groups"]
    assert groups["num_groups"] == NUM_TASKS
    assert (
        groups["num_train_before"] - groups["num_no_longer_train"] + groups["num_now_train"]
        == groups["num_train_after"]
    )
    (example, *_) = said["domains"]["verbs"]["examples"]["down"]
    assert example["before"] in VALUES.values()


def test_with_apply_each_rollout_gets_its_reward_and_a_second_time_nothing(log: LogSettings, tmp_path: Path) -> None:
    said = rescore(log, tmp_path, "--verifier", "exact_match", "--apply")
    made = rewards(log, tmp_path, said["scoring_id"])
    assert said["num_written"] == len(made) == NUM_ROLLOUTS
    values = {record.rollout_id: record.value for record in made.values()}
    for event in read_all(log, "tasks", tmp_path):
        for sample in range(NUM_SAMPLES):
            assert values[f"{event.key}/{sample}"] == strict(event.record.index, sample)
    again = rescore(log, tmp_path, "--verifier", "exact_match", "--apply")
    assert (again["num_written"], again["num_known"]) == (0, NUM_ROLLOUTS)
    assert again["domains"] == said["domains"] | {
        name: domain | {"examples": again["domains"][name]["examples"]} for name, domain in said["domains"].items()
    }
    assert rewards(log, tmp_path, said["scoring_id"]) == made


def test_killed_three_times_and_resumed_it_leaves_what_an_undisturbed_one_leaves(
    log: LogSettings, tmp_path: Path
) -> None:
    whole = rescore(log, tmp_path, "--verifier", STRICT, "--scoring-id", "whole", "--apply")
    killed = ("rescore", "--json", "--verifier", STRICT, "--scoring-id", "killed", "--apply")
    for dies_at in (1, 97, 160):
        done = rollog(log, tmp_path, *killed, dies_at=dies_at)
        assert done.returncode == -signal.SIGKILL
    said = rescore(log, tmp_path, *killed[2:])
    parts = [sorted(map(content, rewards(log, tmp_path, name).values())) for name in ("whole", "killed")]
    assert parts[0] == parts[1]
    assert len(parts[0]) == NUM_ROLLOUTS
    assert said["num_written"] + said["num_known"] == NUM_ROLLOUTS
    assert said["groups"] == whole["groups"]


def content(reward: RewardScored) -> tuple[Any, ...]:
    fields = (name for name in reward.__struct_fields__ if name not in ("scoring_id", "parts"))
    return tuple(str(getattr(reward, name)) for name in fields)


def test_several_workers_find_what_one_finds(log: LogSettings, tmp_path: Path) -> None:
    one = rescore(log, tmp_path, "--verifier", STRICT)
    three = rescore(log, tmp_path, "--verifier", STRICT, "--workers", "3", "--apply")
    assert {**three, "applied": False, "num_written": 0} == one
    assert len(rewards(log, tmp_path, three["scoring_id"])) == NUM_ROLLOUTS


def test_an_id_stands_for_one_configuration(log: LogSettings, tmp_path: Path) -> None:
    rescore(log, tmp_path, "--verifier", STRICT, "--scoring-id", "mine", "--apply", "--domain", "verbs")
    lenient = '{"kind": "exact_match", "partial": "lines"}'
    for options in (["--verifier", lenient], ["--verifier", STRICT, "--only-invalid"]):
        done = rollog(log, tmp_path, "rescore", *options, "--scoring-id", "mine", "--apply")
        assert done.returncode == ExitCode.CONFIG
        assert "mine" in done.stderr
    assert rollog(log, tmp_path, "rescore", "--verifier", STRICT, "--scoring-id", LIVE).returncode == ExitCode.CONFIG
    rescore(log, tmp_path, "--verifier", STRICT, "--scoring-id", "mine", "--apply")
    assert len(rewards(log, tmp_path, "mine")) == NUM_ROLLOUTS


def test_what_was_invalid_can_be_asked_again_alone(log: LogSettings, tmp_path: Path) -> None:
    said = rescore(log, tmp_path, "--only-invalid", "--apply")
    num_invalid = sum(finding_of(index, 1).score is None for index in range(NUM_TASKS))
    assert said["num_written"] == num_invalid == expected_flips()["newly_valid"]
    assert sum(domain["flips"]["newly_valid"] for domain in said["domains"].values()) == num_invalid
    made = rewards(log, tmp_path, said["scoring_id"]).values()
    assert {record.verifier for record in made} == {"exact_match"}
    assert all(record.value is not None for record in made)


def test_a_verifier_that_needs_what_the_log_lacks_is_refused_with_the_reason(log: LogSettings, tmp_path: Path) -> None:
    said = rescore(log, tmp_path, "--verifier", "stdout_match", "--apply", code=ExitCode.FELL_SHORT)
    assert said["num_refused"] == NUM_ROLLOUTS
    assert all("stdout_match judges what programs print" in reason for reason in said["refused"])
    assert rewards(log, tmp_path, said["scoring_id"]) == {}


@pytest.mark.parametrize(
    ("options", "num"),
    [
        (["--domain", "verbs"], NUM_ROLLOUTS // 2),
        (["--where", "task.index<10"], 40),
        (["--where", "reward.value=1", "--where", "why=finished"], None),
        (["--policy", "policy@3..3"], NUM_ROLLOUTS),
        (["--policy", "policy@5"], 0),
        (["--policy", "other"], 0),
        (["--until", "2023-11-14T22:13:30Z"], 40),
        (["--from-offset", "0:99999"], ExitCode.CONFIG),
        (["--where", "id=7"], ExitCode.CONFIG),
        (["--workers", "0"], ExitCode.CONFIG),
    ],
)
def test_a_part_of_history_can_be_chosen(
    log: LogSettings, tmp_path: Path, options: list[str], num: int | ExitCode | None
) -> None:
    if isinstance(num, ExitCode):
        assert rollog(log, tmp_path, "rescore", "--verifier", STRICT, *options).returncode == num
        return
    said = rescore(log, tmp_path, "--verifier", STRICT, *options)
    if num is None:
        num = sum(
            (score := finding_of(index, sample).score) is not None and score.value == 1
            for index in range(NUM_TASKS)
            for sample in range(NUM_SAMPLES)
        )
    assert said["num_scored"] == num


def test_the_table_names_domains_directions_and_what_to_do_next(log: LogSettings, tmp_path: Path) -> None:
    write(log, tmp_path, list(task_events(999, time_s=1_700_000_500.0, is_scored=False)))
    done = rollog(log, tmp_path, "rescore", "--verifier", STRICT)
    assert done.returncode == 0
    for word in ("verbs", "repair", "batches:", "--apply", "1 groups are still open"):
        assert word in done.stdout


def batches(log: LogSettings, home: Path) -> list[tuple[str, bytes]]:
    events = read_all(log, "batches", home / "blobs", dedupe=0)
    return [(event.id, encode_value(event.record)) for event in events]


def test_a_scorings_batches_are_the_same_however_often_they_are_made(
    log: LogSettings, broker: str, tmp_path: Path
) -> None:
    said = rescore(log, tmp_path, "--verifier", STRICT, "--apply")
    scoring = ("rebatch", "--json", "--scoring", said["scoring_id"])
    dry = json.loads(rollog(log, tmp_path, *scoring).stdout)
    assert batches(log, tmp_path) == []
    wet = json.loads(rollog(log, tmp_path, *scoring, "--apply").stdout)
    made = batches(log, tmp_path)
    assert wet["num_written"] == wet["num_batches"] == dry["num_batches"] == len(made)
    assert len(made) == said["groups"]["num_train_after"]
    assert wet["decisions"]["zero_variance"] == NUM_TASKS - len(made)
    again = json.loads(rollog(log, tmp_path, *scoring, "--apply").stdout)
    assert (again["num_written"], again["num_known"]) == (0, len(made))
    assert sorted(batches(log, tmp_path)) == sorted(made)
    for event in read_all(log, "batches", tmp_path / "blobs"):
        batch = event.record
        assert batch.scoring_id == said["scoring_id"]
        assert event.id == derive_id(batch.task_id, "batch", 0, said["scoring_id"])
        assert {row.reward for row in batch.rows} == {0.0, 1.0}
    twin = new_log(broker, f"twin{log.namespace}", partitions=3)
    write(twin, tmp_path, list(history(NUM_TASKS)))
    rescore(twin, tmp_path, "--verifier", STRICT, "--apply")
    assert rollog(twin, tmp_path, *scoring, "--apply").returncode == 0
    assert sorted(batches(twin, tmp_path)) == sorted(made)


def test_what_was_asked_again_stands_beside_live_rewards_of_the_same_configuration(
    log: LogSettings, tmp_path: Path
) -> None:
    said = rescore(log, tmp_path, "--only-invalid", "--apply")
    done = rollog(log, tmp_path, "rebatch", "--json", "--scoring", said["scoring_id"], "--apply")
    assert json.loads(done.stdout)["num_written"] == sum(index % 3 != 0 for index in range(NUM_TASKS))
    found = read_all(log, "batches", tmp_path / "blobs")
    assert all(len(event.record.rows) == NUM_SAMPLES for event in found)


def test_a_scoring_that_is_not_on_the_log_has_no_batches(log: LogSettings, tmp_path: Path) -> None:
    done = rollog(log, tmp_path, "rebatch", "--scoring", "mine")
    assert done.returncode == ExitCode.CONFIG
    assert "'mine' is not on this log" in done.stderr


def test_two_scorings_are_compared_by_what_they_have_on_the_log(log: LogSettings, tmp_path: Path) -> None:
    first = rescore(log, tmp_path, "--verifier", STRICT, "--apply")
    second = rescore(log, tmp_path, "--verifier", '{"kind": "exact_match", "partial": "prefix"}', "--apply")
    said = json.loads(rollog(log, tmp_path, "compare", "--json", "live", first["scoring_id"]).stdout)
    assert said["groups"] == first["groups"]
    assert {name: domain["flips"] for name, domain in said["domains"].items()} == {
        name: domain["flips"] for name, domain in first["domains"].items()
    }
    ids = (first["scoring_id"], second["scoring_id"])
    between = json.loads(rollog(log, tmp_path, "compare", "--json", *ids).stdout)
    flips = [domain["flips"] for domain in between["domains"].values()]
    num_near = sum(answer_of(i, s) == "righ" for i in range(NUM_TASKS) for s in range(NUM_SAMPLES))
    assert sum(flip["up"] for flip in flips) == num_near
    assert sum(flip["down"] for flip in flips) == 0
    assert rollog(log, tmp_path, "compare", "live", "nobody").returncode == ExitCode.CONFIG
