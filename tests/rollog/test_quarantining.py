"""`rollog quarantine` on a real broker: what it finds, what it refuses, and the one event that it writes."""

import json
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from consumers.commands import CommandFeed, read_recalls
from consumers.reader import Reader, end_offsets
from learner.checkpoint import CheckpointError, LearnerState, folder_of, read_state, write_checkpoint
from producers.admission import batch_id
from producers.publisher import Publisher
from rollog.cli import app
from rollog.quarantining import descendants
from rollog.recall_cli import mount
from schemas.config import LogSettings
from schemas.errors import ConfigError
from schemas.ids import task_id
from schemas.recalls import Recalls
from tests import samples
from tests.history import write_history
from tests.logs import new_log, read_all, wait_for

mount(app)
STEPS = 2
"""Of six groups the third and the sixth have no variance; two are in a step."""


@pytest.fixture
def log(broker: str, namespace: str, tmp_path: Path) -> LogSettings:
    log = new_log(broker, namespace)
    publisher = Publisher(log, source="rollog/test", blob_dir=tmp_path / "blobs")
    write_history(publisher.send_all, start_s=time.time(), chunk=6, per_step=2, run="golden")
    write_history(publisher.send_all, start_s=time.time(), chunk=6, num_tasks=7, per_step=9, run="idle")
    publisher.close()
    for step in range(STEPS + 1):
        state = LearnerState(
            run_id="golden", policy="policy", step=step, seed=0, offsets={}, seen=(), pending=(), digests={}
        )  # fmt: skip
        write_checkpoint(tmp_path / "runs/golden/checkpoints", state, {"model.safetensors": bytes([step])})
    return log


def rollog(log: LogSettings, home: Path, *arguments: str, run: str = "golden") -> dict[str, Any]:
    places = ("--home", str(home), "--set", f"log.bootstrap={log.bootstrap}", "--set", f"log.namespace={log.namespace}")
    done = CliRunner().invoke(app, [*arguments, *places, "--set", f"run={run}", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def recalls(log: LogSettings, home: Path) -> Recalls:
    return read_recalls(partial(Reader, log, blob_dir=home / "blobs"))


def test_a_dry_run_says_what_trained_on_them_and_writes_nothing(log: LogSettings, tmp_path: Path) -> None:
    before = end_offsets(log, ["commands"])
    third = task_id("golden", "train", 3)
    found = rollog(log, tmp_path, "quarantine", "--rollout", f"{third}/1")
    assert end_offsets(log, ["commands"]) == before
    assert (found["rollouts"], found["groups"], found["by_domain"]) == (1, 1, {"repair": {"rollouts": 1, "groups": 1}})
    assert (found["batches_trained"], found["batches_waiting"], found["applied"]) == (1, 0, False)
    assert (found["steps"], found["versions"], found["newest_is_clean"]) == ([2], [2], False)
    assert found["last_clean_checkpoint"] == 1
    assert found["rollback"] == "rollog rollback policy 1 --run golden --apply"


def test_conditions_count_only_what_they_hold_for(log: LogSettings, tmp_path: Path) -> None:
    good = rollog(log, tmp_path, "quarantine", "--where", "reward.value=1")
    assert (good["rollouts"], good["groups"]) == (4, 4)
    every = rollog(log, tmp_path, "quarantine", "--domain", "repair")
    assert (every["rollouts"], every["groups"], every["num_steps"]) == (12, 6, 2)
    assert every["last_clean_checkpoint"] == 0
    none = rollog(log, tmp_path, "quarantine", "--domain", "verbs")
    assert (none["rollouts"], none["newest_is_clean"], none["last_clean_checkpoint"]) == (0, True, 2)
    for option in (
        ["--policy", "policy@1..9"],
        ["--until", "1970-01-02T00:00:00Z"],
        ["--since", "2200-01-01T00:00:00Z"],
    ):
        assert rollog(log, tmp_path, "quarantine", *option)["rollouts"] == 0
    assert rollog(log, tmp_path, "quarantine", "--until", "now")["is_open"] is False


def test_a_broken_checkpoint_is_named_and_the_one_before_it_is_the_last_clean(log: LogSettings, tmp_path: Path) -> None:
    (folder_of(tmp_path / "runs/golden/checkpoints", 1) / "model.safetensors").write_bytes(b"torn")
    found = rollog(log, tmp_path, "quarantine", "--rollout", f"{task_id('golden', 'train', 3)}/1")
    assert found["last_clean_checkpoint"] == 0
    assert "step-000001/model.safetensors" in found["broken_checkpoints"][0]


def test_apply_writes_one_command_that_says_what_waits_and_how_far_was_looked(log: LogSettings, tmp_path: Path) -> None:
    ends = {partition: end for (_, partition), end in end_offsets(log, ["batches"]).items()}
    feed = CommandFeed(partial(Reader, log, blob_dir=tmp_path / "blobs"))
    found = rollog(
        log, tmp_path, "quarantine", "--where", "answer.text~print", "--reason", "why", "--apply", run="idle"
    )
    assert (found["applied"], found["batches_waiting"], found["batches_trained"]) == (True, 5, 0)
    wait_for(feed.poll, "the command")
    feed.close()
    (given,) = feed.recalls.in_force("idle")
    assert given == recalls(log, tmp_path).quarantines[found["quarantine_id"]]
    assert (given.batch_ends, given.reason, given.selection.text) == (ends, "why", found["selection"])
    assert given.batches == {batch_id(task_id("idle", "train", place)) for place in (0, 1, 3, 4, 6)}
    assert recalls(log, tmp_path).in_force("golden") == []
    with pytest.raises(ConfigError, match=f"in force already, as {given.quarantine_id}"):
        rollog(log, tmp_path, "quarantine", "--where", "answer.text~print", "--apply", run="idle")
    assert len(read_all(log, "commands", tmp_path / "blobs", dedupe=0)) == 1


def test_a_quarantine_is_listed_and_lifted_once(log: LogSettings, tmp_path: Path) -> None:
    given = rollog(log, tmp_path, "quarantine", "--domain", "repair", "--apply")["quarantine_id"]
    dry = rollog(log, tmp_path, "quarantine", "--lift", given[:8])
    assert (dry["lift"], dry["applied"], dry["quarantines"][0]["lifted"]) == (given, False, False)
    assert len(recalls(log, tmp_path).in_force("golden")) == 1
    rollog(log, tmp_path, "quarantine", "--lift", given[:8], "--apply")
    assert recalls(log, tmp_path).in_force("golden") == []
    assert rollog(log, tmp_path, "quarantine", "--list")["quarantines"][0]["lifted"] is True
    with pytest.raises(ConfigError, match="lifted already"):
        rollog(log, tmp_path, "quarantine", "--lift", given, "--apply")
    again = rollog(log, tmp_path, "quarantine", "--domain", "repair", "--apply")["quarantine_id"]
    assert again != given, "what was lifted can be given anew"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "everything is meant"),
        (["--where", "reward.vlaue=1"], "no such field"),
        (["--where", "key=x"], "envelope"),
        (["--rollout", "x"], "TASK/SAMPLE"),
        (["--since", "1h", "--until", "2h"], "not before --until"),
        (["--lift", "nothing"], "there are: none"),
    ],
)
def test_what_cannot_be_meant_is_refused(log: LogSettings, tmp_path: Path, arguments: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        rollog(log, tmp_path, "quarantine", *arguments)


def test_all_that_was_made_from_a_bad_step_descends_from_it() -> None:
    steps = {n: msgspec.structs.replace(samples.step(), step=n, policy_version_in=n - 1) for n in range(1, 6)}
    assert descendants(steps, {3}) == {3, 4, 5}
    assert descendants(steps, set()) == set()
    steps[4] = msgspec.structs.replace(steps[4], batches=(), restored_from=2)
    assert descendants(steps, {3}) == {3}, "what went back before it is clean again"
    assert descendants(steps, {2}) == {2, 3, 4, 5}


def test_a_checkpoint_that_is_newer_than_the_steps_that_were_read_is_not_taken_for_clean(
    log: LogSettings, tmp_path: Path
) -> None:
    state = LearnerState(
        run_id="golden", policy="policy", step=9, seed=0, offsets={}, seen=(), pending=(), digests={}
    )  # fmt: skip
    write_checkpoint(tmp_path / "runs/golden/checkpoints", state, {"model.safetensors": b"9"})
    found = rollog(log, tmp_path, "quarantine", "--rollout", f"{task_id('golden', 'train', 3)}/1")
    assert found["last_clean_checkpoint"] == 1


def put_weights(log: LogSettings, home: Path) -> None:
    """Make the checkpoints hold what the log says of their versions."""
    for event in read_all(log, "policies", home / "blobs"):
        folder = folder_of(home / "runs/golden/checkpoints", event.record.version)
        if event.record.run_id == "golden":
            state = msgspec.structs.replace(read_state(folder), digests={"model.safetensors": event.record.digest})
            (folder / "state.json").write_bytes(msgspec.json.encode(state))
            (folder / "model.safetensors").write_bytes(f"golden/{event.record.version}".encode())


def test_a_rollback_is_one_command_given_once(log: LogSettings, tmp_path: Path) -> None:
    put_weights(log, tmp_path)
    dry = rollog(log, tmp_path, "rollback", "policy", "1")
    assert (dry["newest_version"], dry["becomes"], dry["batches_rolled_back"], dry["applied"]) == (2, 3, 2, False)
    assert recalls(log, tmp_path).rollbacks == {}
    given = rollog(log, tmp_path, "rollback", "policy", "1", "--apply")
    (found,) = recalls(log, tmp_path).rollbacks.values()
    assert (found.rollback_id, found.version, found.at, found.policy) == (given["rollback_id"], 1, 2, "policy")
    with pytest.raises(ConfigError, match="not obeyed yet"):
        rollog(log, tmp_path, "rollback", "policy", "0", "--apply")


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        (["other", "1"], ConfigError, "trains 'policy'"),
        (["policy", "9"], ConfigError, "there are 0 to 2"),
        (["policy", "2"], ConfigError, "is the newest"),
    ],
)
def test_a_rollback_that_makes_no_sense_is_refused(
    log: LogSettings, tmp_path: Path, arguments: list[str], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        rollog(log, tmp_path, "rollback", *arguments)


def test_a_rollback_to_what_is_not_kept_torn_or_other_names_what_is(log: LogSettings, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds other weights"):
        rollog(log, tmp_path, "rollback", "policy", "1")
    put_weights(log, tmp_path)
    folder = folder_of(tmp_path / "runs/golden/checkpoints", 1)
    (folder / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(CheckpointError, match="kept are: 0, 1, 2"):
        rollog(log, tmp_path, "rollback", "policy", "1", "--apply")
    shutil.rmtree(folder)
    with pytest.raises(CheckpointError, match="kept are: 0, 2"):
        rollog(log, tmp_path, "rollback", "policy", "1", "--apply")
    assert recalls(log, tmp_path).rollbacks == {}
