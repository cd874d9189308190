"""The verbs about history where they meet Kafka: one log on a real broker, written, indexed, sealed, edited, lost."""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from consumers.bounds import read_state
from consumers.index import open_index
from consumers.reader import Reader
from producers.publisher import Publisher
from rollog.cli import app
from rollog.exit_codes import ExitCode
from rollog.history_cli import mount
from rollog.topics import create_topics
from schemas.config import LogSettings
from schemas.errors import LogError
from schemas.ids import task_id
from tests.history import write_history
from tests.logs import new_log, wait_for

TRAINED = task_id("golden", "train", 0)
mount(app)


def write(log: LogSettings, home: Path, **options: Any) -> None:
    publisher = Publisher(log, source="rollog/test", blob_dir=home / "blobs")
    write_history(publisher.send_all, start_s=time.time(), chunk=6, **options)
    publisher.close()


@pytest.fixture
def log(broker: str, namespace: str, tmp_path: Path) -> LogSettings:
    log = new_log(broker, namespace)
    write(log, tmp_path)
    return log


def rollog(log: LogSettings, home: Path, *arguments: str, status: int = 0) -> dict[str, Any]:
    """Run a verb; returns the one JSON object that is all of its stdout."""
    places = ("--home", str(home), "--set", f"log.bootstrap={log.bootstrap}", "--set", f"log.namespace={log.namespace}")
    done = CliRunner().invoke(app, [*arguments, *places, "--json"], catch_exceptions=False)
    assert done.exit_code == status, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_index_follows_the_log_and_can_be_made_anew(log: LogSettings, tmp_path: Path) -> None:
    first = rollog(log, tmp_path, "index")
    assert first["num_new"] == first["num_events"] == read_state(log).num_offsets
    assert rollog(log, tmp_path, "index")["num_new"] == 0
    write(log, tmp_path, run="second")
    assert rollog(log, tmp_path, "index")["num_new"] == first["num_new"]
    assert rollog(log, tmp_path, "index", "--rebuild")["num_new"] == 2 * first["num_new"]


def test_a_rollout_is_audited_from_the_records_themselves(log: LogSettings, tmp_path: Path) -> None:
    found = rollog(log, tmp_path, "audit", "rollout", f"{TRAINED[:8]}/1")
    assert found["task"]["task_id"] == TRAINED
    assert found["rollouts"][0]["turns"][0]["text"] == "print(f(3,4))"
    assert found["rollouts"][0]["advantage"] == 0.5
    assert (found["steps"][0]["run"], found["gone"]) == ("golden", [])
    assert rollog(log, tmp_path, "audit", "step", "1")["batches"]["shown"][0]["is_unchanged"] is True


def test_an_unknown_id_is_refused_with_what_is_nearest(log: LogSettings, tmp_path: Path) -> None:
    with pytest.raises(LogError, match=f"nearest: {TRAINED}"):
        rollog(log, tmp_path, "audit", "task", TRAINED[:-1] + "x")


def test_a_topic_that_was_made_anew_is_another_log(log: LogSettings, tmp_path: Path) -> None:
    rollog(log, tmp_path, "index")
    client = AdminClient({"bootstrap.servers": log.bootstrap})
    name = f"{log.namespace}steps"
    client.delete_topics([name])[name].result(15)
    wait_for(lambda: name not in client.list_topics(timeout=5).topics, "deleted")
    wait_for(lambda: bool(create_topics(log)), "created")
    with pytest.raises(LogError, match="the index belongs to another log"):
        rollog(log, tmp_path, "index")
    assert rollog(log, tmp_path, "index", "--rebuild")["num_events"] == read_state(log).num_offsets


def test_a_whole_log_verifies_and_one_with_garbage_does_not(log: LogSettings, tmp_path: Path) -> None:
    report = rollog(log, tmp_path, "verify-log")
    assert (report["findings"], report["details"]) == (0, [])
    assert report["events"] == read_state(log).num_offsets
    producer = Producer({"bootstrap.servers": log.bootstrap})
    producer.produce(f"{log.namespace}policies", key=b"x", value=b"\xc1")
    assert producer.flush(15) == 0
    report = rollog(log, tmp_path, "verify-log", status=ExitCode.FELL_SHORT)
    assert [(finding["kind"], finding["position"]) for finding in report["details"]] == [
        ("undecodable", "policies[0]@5")
    ]


def test_seals_are_written_once_and_hold_what_the_broker_gives_back(log: LogSettings, tmp_path: Path) -> None:
    num_records = read_state(log).num_offsets
    dry = rollog(log, tmp_path, "seal")
    assert (dry["applied"], dry["num_records"]) == (False, num_records)
    assert rollog(log, tmp_path, "verify-log")["seals"] == 0
    assert rollog(log, tmp_path, "seal", "--apply")["seals"] == dry["seals"]
    assert rollog(log, tmp_path, "seal", "--apply")["num_records"] == 0
    write(log, tmp_path, run="second")
    assert rollog(log, tmp_path, "seal", "--apply")["num_records"] == num_records
    report = rollog(log, tmp_path, "verify-log", "--strict")
    assert (report["findings"], report["unsealed"]) == (0, 0)
    assert report["seals"] > len(dry["seals"])


def test_history_that_is_sealed_and_gone_is_not_sealed_over(log: LogSettings, tmp_path: Path) -> None:
    rollog(log, tmp_path, "seal", "--apply")
    client = AdminClient({"bootstrap.servers": log.bootstrap})
    name = f"{log.namespace}steps"
    client.delete_topics([name])[name].result(15)
    wait_for(lambda: name not in client.list_topics(timeout=5).topics, "deleted")
    wait_for(lambda: bool(create_topics(log)), "created")
    with pytest.raises(LogError, match=r"steps\[0\] is sealed up to 4"):
        rollog(log, tmp_path, "seal")
    report = rollog(log, tmp_path, "verify-log", status=ExitCode.FELL_SHORT)
    assert "seal" in report["by_kind"]


def test_what_trained_is_compared_with_what_was_issued(log: LogSettings, tmp_path: Path) -> None:
    found = rollog(log, tmp_path, "report", "bias", "--set", "run=golden")
    assert (found["tasks"], found["rollouts"], found["trained"]) == (6, 12, 8)
    assert found["reasons"] == {"zero_variance": 4}


def test_an_index_that_two_bring_up_to_date_at_once_is_the_same(log: LogSettings, tmp_path: Path) -> None:
    state = read_state(log)
    reader = partial(Reader, log, blob_dir=tmp_path / "blobs")
    one, other = (open_index(tmp_path, state, log.namespace) for _ in range(2))

    def while_the_other_works(*arguments: Any, **options: Any) -> Reader:
        other.catch_up(reader, state.bounds)
        return reader(*arguments, **options)

    assert one.catch_up(while_the_other_works, state.bounds).num_events == state.num_offsets
    assert one.one("SELECT count(*) FROM events") == (state.num_offsets,)
    assert one.offsets == {at: end for at, (_, end) in state.bounds.items()}


def test_a_log_without_topics_is_refused(broker: str, namespace: str, tmp_path: Path) -> None:
    with pytest.raises(LogError, match="create its topics first"):
        rollog(LogSettings(bootstrap=broker, namespace=namespace), tmp_path, "index")
