"""From a log to a tape and back, by the command."""

import json
import random
import threading
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer

from consumers.raw import RawRecord
from consumers.tapes.file import TapeFile
from consumers.tapes.writer import TapeWriter
from producers.publisher import Publisher, producer_options
from rollog.exit_codes import ExitCode
from rollog.topics import check_topics
from schemas.config import LogSettings
from schemas.errors import ConfigError, LogError
from schemas.events import Position
from schemas.limits import MAX_RECORD_BYTES
from tests import samples
from tests.consumers.tapes.small_tapes import raw
from tests.logs import new_log, produce_raw, read_all
from tests.rollog.tapes.recorded import LARGE, NUM_TURNS, all_records, record_some, rollog, tree


@pytest.fixture
def log(broker: str, namespace: str) -> LogSettings:
    return new_log(broker, namespace)


@pytest.fixture
def tape(log: LogSettings, tmp_path: Path) -> Path:
    record_some(log, tmp_path)
    path = tmp_path / "run.tape"
    assert rollog("tape", "export", str(path), log=log, home=tmp_path).exit_code == ExitCode.OK
    return path


def produce_large(log: LogSettings, value: bytes) -> None:
    producer = Producer({**producer_options(log)})
    producer.produce(f"{log.namespace}rollouts", value=value, key=b"k", headers={"h": b"v"})
    assert producer.flush(20) == 0


def copy_of(log: LogSettings) -> LogSettings:
    return msgspec.structs.replace(log, namespace=f"copy{log.namespace}")


def test_a_tape_has_all_that_is_on_the_log_byte_for_byte(log: LogSettings, tape: Path, tmp_path: Path) -> None:
    opened = TapeFile(tape)
    records = {at: [record.raw() for record in opened.records(at, 0)] for at in opened.ranges}
    opened.close()

    assert records == all_records(log, tmp_path)
    assert sum(map(len, records.values())) == NUM_TURNS + 4


def test_an_export_says_what_it_wrote_and_verify_says_the_same(log: LogSettings, tmp_path: Path) -> None:
    record_some(log, tmp_path)
    path = tmp_path / "a.tape"
    done = tree(rollog("tape", "export", str(path), "--json", log=log, home=tmp_path))
    found = tree(rollog("tape", "verify", str(path), "--digest", done["digest"], "--json", log=log, home=tmp_path))

    assert found["faults"] == []
    assert (done["num_records"], done["num_undecodable"]) == (found["num_records"], found["num_undecodable"])
    assert done["num_undecodable"] == 1
    assert found["num_blobs"] == 1


def test_a_flipped_byte_is_named_with_status_1(log: LogSettings, tape: Path, tmp_path: Path) -> None:
    content = bytearray(tape.read_bytes())
    content[len(content) // 2] ^= 4
    tape.write_bytes(content)

    result = rollog("tape", "verify", str(tape), log=log, home=tmp_path)
    assert result.exit_code == ExitCode.FELL_SHORT
    assert "frame" in result.stdout
    assert "at byte" in result.stdout
    assert tree(rollog("tape", "verify", str(tape), "--json", log=log, home=tmp_path))["faults"]


def test_topics_and_times_choose_the_piece(log: LogSettings, tmp_path: Path) -> None:
    publisher = Publisher(log, source="test", blob_dir=tmp_path / "blobs")
    for n in range(1, 6):
        event = publisher.event(samples.turn(text=str(n)), id=str(n), key=samples.TASK_ID)
        publisher.send_all([msgspec.structs.replace(event, time_s=n * 1000.0)])
    publisher.close()
    path = tmp_path / "a.tape"
    piece = ["--topics", "rollouts,tasks", "--since", "1970-01-01T00:33:20Z", "--until", "1970-01-01T01:06:40Z"]

    done = tree(rollog("tape", "export", str(path), *piece, "--json", log=log, home=tmp_path))

    assert {name.split("[")[0] for name in done["spans"]} == {"rollouts", "tasks"}
    lines = rollog("tape", "cat", str(path), "--json", log=log, home=tmp_path).stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["2", "3"]


@pytest.mark.parametrize("option", [["--until", "yesterday"], ["--until", "beginning"], ["--topics", "reward"]])
def test_a_piece_that_cannot_be_is_refused(log: LogSettings, tmp_path: Path, option: list[str]) -> None:
    result = rollog("tape", "export", str(tmp_path / "a.tape"), *option, log=log, home=tmp_path)
    assert isinstance(result.exception, ConfigError)
    assert option[1] in str(result.exception)
    assert list(tmp_path.glob("*.tape")) == []


def test_a_broker_that_is_gone_leaves_no_file(tmp_path: Path) -> None:
    nowhere = LogSettings(bootstrap="127.0.0.1:1", namespace="x.")
    result = rollog("tape", "export", str(tmp_path / "a.tape"), "--topics", "steps", log=nowhere, home=tmp_path)
    assert isinstance(result.exception, LogError)
    assert list(tmp_path.iterdir()) == []


def test_cat_prints_as_tap_does(log: LogSettings, tape: Path, tmp_path: Path) -> None:
    for options in ([], ["--json"], ["--where", "sample=0", "--limit", "1"], ["--domain", "nowhere"]):
        taped = rollog("tape", "cat", str(tape), "--topics", "rewards", *options, log=log, home=tmp_path)
        tapped = rollog("tap", "rewards", *options, log=log, home=tmp_path)
        assert sorted(taped.stdout.splitlines()) == sorted(tapped.stdout.splitlines())
    assert "undecodable" in rollog("tape", "cat", str(tape), log=log, home=tmp_path).stdout


def test_an_import_writes_nothing_unless_told_to(log: LogSettings, tape: Path, tmp_path: Path) -> None:
    copy = copy_of(log)
    done = tree(
        rollog("tape", "import", str(tape), "--into-namespace", copy.namespace, "--json", log=log, home=tmp_path)
    )

    assert (done["applied"], done["num_written"], done["num_records"]) == (False, 0, NUM_TURNS + 4)
    assert all(drift.setting == "exists" for drift in check_topics(copy))


def test_a_log_comes_back_from_its_tape_alone(log: LogSettings, tape: Path, tmp_path: Path) -> None:
    elsewhere, copy = tmp_path / "elsewhere", copy_of(log)
    arguments = ["tape", "import", str(tape), "--into-namespace", copy.namespace, "--apply", "--json"]
    done = tree(rollog(*arguments, log=msgspec.structs.replace(log, partitions=5), home=elsewhere))

    assert done["num_written"] == NUM_TURNS + 4
    assert check_topics(copy) == []
    assert all_records(copy, elsewhere) == all_records(log, tmp_path)
    assert [e.record.text for e in read_all(copy, "rollouts", elsewhere / "blobs") if e.id == "large"] == [LARGE]
    assert done["moved"] == []
    assert done["expiring"] == []

    again = tree(rollog(*arguments, log=log, home=elsewhere))
    assert (again["num_there"], again["num_written"]) == (NUM_TURNS + 4, 0)
    assert all_records(copy, elsewhere) == all_records(log, tmp_path)


def test_an_import_that_was_cut_off_goes_on(log: LogSettings, tape: Path, tmp_path: Path) -> None:
    copy = new_log(log.bootstrap, copy_of(log).namespace)
    publisher = Publisher(copy, source="test", blob_dir=tmp_path / "blobs")
    records = all_records(log, tmp_path)["rollouts", 1]
    for record in records[:7]:
        publisher.publish_raw(record)
    publisher.flush(30)
    publisher.close()

    arguments = ["tape", "import", str(tape), "--into-namespace", copy.namespace, "--apply", "--json"]
    done = tree(rollog(*arguments, log=log, home=tmp_path))

    assert (done["num_there"], done["num_written"]) == (7, NUM_TURNS + 4 - 7)
    assert all_records(copy, tmp_path) == all_records(log, tmp_path)


@pytest.mark.parametrize("topic", ["rollouts", "evals"])
def test_a_namespace_that_holds_other_events_is_refused_and_left_alone(
    log: LogSettings, tape: Path, tmp_path: Path, topic: str
) -> None:
    copy = new_log(log.bootstrap, copy_of(log).namespace)
    publisher = Publisher(copy, source="test", blob_dir=tmp_path / "blobs")
    like = all_records(log, tmp_path)["rollouts", 0][0]
    publisher.publish_raw(
        RawRecord(
            position=Position(topic, 0, 0),
            key=b"k",
            value=b"other",
            headers=like.headers,
            timestamp_ms=like.timestamp_ms,
        )
    )
    publisher.flush(30)
    publisher.close()
    before = all_records(copy, tmp_path)

    arguments = ["tape", "import", str(tape), "--into-namespace", copy.namespace, "--apply"]
    result = rollog(*arguments, log=log, home=tmp_path)

    assert isinstance(result.exception, ConfigError)
    assert f"{topic}[0]@0" in str(result.exception)
    assert all_records(copy, tmp_path) == before


def test_a_namespace_with_another_number_of_partitions_is_refused(log: LogSettings, tape: Path, tmp_path: Path) -> None:
    copy = new_log(log.bootstrap, copy_of(log).namespace, partitions=3)
    result = rollog("tape", "import", str(tape), "--into-namespace", copy.namespace, log=log, home=tmp_path)
    assert isinstance(result.exception, ConfigError)
    assert "3 partitions" in str(result.exception)


def test_what_will_stand_elsewhere_or_not_stay_is_said(log: LogSettings, tmp_path: Path) -> None:
    path = tmp_path / "a.tape"
    with TapeWriter(path) as writer:
        for topic, start in (("batches", 7), ("rewards", 0)):
            for partition in range(2):
                writer.begin(topic, partition, start)
                writer.add(raw(samples.records()["batch" if start else "reward_scored"], topic, partition, start))
                writer.end(start + 1)
        writer.finish()

    into = ["--into-namespace", copy_of(log).namespace, "--json"]
    done = tree(rollog("tape", "import", str(path), *into, log=log, home=tmp_path))

    assert done["moved"] == ["batches[0]", "batches[1]"]
    assert done["expiring"] == ["batches"]


def test_an_export_ends_where_the_log_ended_at_its_start(log: LogSettings, tmp_path: Path) -> None:
    """Another process goes on writing all the while; the tape is whole and ends."""
    record_some(log, tmp_path)
    stop, num_written = threading.Event(), 0

    def go_on() -> None:
        nonlocal num_written
        publisher = Publisher(log, source="test", blob_dir=tmp_path / "blobs")
        while not stop.is_set():
            publisher.send_all([publisher.event(samples.turn(), id=f"later {num_written}", key=samples.TASK_ID)])
            num_written += 1
        publisher.close()

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        done = tree(rollog("tape", "export", str(tmp_path / "a.tape"), "--json", log=log, home=tmp_path))
    finally:
        stop.set()
        writer.join()

    found = tree(rollog("tape", "verify", str(tmp_path / "a.tape"), "--json", log=log, home=tmp_path))
    assert found["faults"] == []
    assert NUM_TURNS + 4 <= done["num_records"] < NUM_TURNS + 4 + num_written


def test_a_record_without_a_time_is_refused_where_it_would_be_given_one(log: LogSettings, tmp_path: Path) -> None:
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    record = RawRecord(position=Position("tasks", 1, 5), key=b"k", value=b"v", headers=[], timestamp_ms=0)
    with pytest.raises(LogError, match=r"tasks\[1\]@5"):
        publisher.publish_raw(record)
    publisher.close()


def test_a_record_of_nearly_the_largest_size_goes_through_whole(log: LogSettings, tmp_path: Path) -> None:
    value = random.Random(3).randbytes(MAX_RECORD_BYTES - (64 << 10))
    produce_raw(log, "rollouts", b"before", key=b"k", headers={})
    produce_large(log, value)
    produce_raw(log, "rollouts", b"after", key=b"k", headers={})

    path = tmp_path / "a.tape"
    done = tree(rollog("tape", "export", str(path), "--topics", "rollouts", "--json", log=log, home=tmp_path))

    tape = TapeFile(path)
    assert [r.value for at in tape.ranges for r in tape.records(at, 0)] == [b"before", value, b"after"]
    tape.close()
    assert done["num_undecodable"] == 3
