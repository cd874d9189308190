"""The embedded broker on directories of its own: restarts, kills, owners, ports, reset."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from rollog.broker.cli import app
from rollog.broker.directory import PORTS, BrokerDirectory
from rollog.broker.runtime import Runtime, prepare
from rollog.broker.server import EmbeddedBroker
from rollog.broker.waiting import wait_for
from schemas.errors import BrokerError

TOPIC = "kept"
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return prepare()


@contextmanager
def stopped_at_the_end(broker: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    try:
        yield broker
    finally:
        broker.stop()


def write(bootstrap: str, value: bytes) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    if TOPIC not in client.list_topics(timeout=DEADLINE_S).topics:
        client.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(DEADLINE_S)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    failures: list[object] = []
    producer.produce(TOPIC, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(DEADLINE_S) == 0
    assert not failures


def read(bootstrap: str, num: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    messages = consumer.consume(num, timeout=DEADLINE_S)
    consumer.close()
    return [message.value() for message in messages]


def fake_runtime(folder: Path, script: str) -> Runtime:
    """A JVM that is a shell script."""
    java, template = folder / "java", folder / "template"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    template.mkdir()
    real = prepare()
    faked = msgspec.structs.replace(real.java, executable=java)
    return Runtime(java=faked, archive=folder / "none", template=template)


def test_a_restart_and_a_kill_keep_the_records_and_the_address(tmp_path: Path, runtime: Runtime) -> None:
    with stopped_at_the_end(EmbeddedBroker(tmp_path / "a folder, ä %20 ${x}", runtime=runtime)) as broker:
        first = broker.start()
        write(first, b"before the stop")
        assert broker.stop()
        assert not broker.status().running
        assert broker.start() == first
        write(first, b"before the kill")
        os.kill(broker.status().pid, signal.SIGKILL)
        assert broker.process is not None
        broker.process.wait(DEADLINE_S)
        assert not broker.status().running
        assert broker.start() == first
        assert read(first, 2) == [b"before the stop", b"before the kill"]
        assert "Kafka Server started" in broker.logs()


def test_a_directory_has_one_owner_and_is_not_reset_under_it(tmp_path: Path, runtime: Runtime) -> None:
    with stopped_at_the_end(EmbeddedBroker(tmp_path, runtime=runtime)) as broker:
        bootstrap = broker.start()
        other = EmbeddedBroker(tmp_path, runtime=runtime)
        with pytest.raises(BrokerError, match=rf"owns this directory already \(pid {broker.status().pid}"):
            other.start()
        with pytest.raises(BrokerError, match="owns this directory already"):
            other.reset(yes=True)
        assert other.status().pid == broker.status().pid
        write(bootstrap, b"still there")
        assert other.stop()
        assert not broker.stop()


def test_the_command_starts_a_broker_that_outlives_it(tmp_path: Path) -> None:
    place = ("--dir", str(tmp_path / "data"), "--json")
    with stopped_at_the_end(EmbeddedBroker(tmp_path / "data")) as broker:
        command = [sys.executable, "-c", "from rollog.broker.cli import app; app()"]
        done = subprocess.run([*command, "start", *place], capture_output=True, text=True, timeout=120, check=True)
        started = msgspec.json.decode(done.stdout)
        assert started["running"]
        write(started["bootstrap"], b"answered")
        again = CliRunner().invoke(app, ["start", *place])
        assert msgspec.json.decode(again.stdout)["pid"] == started["pid"]
        assert CliRunner().invoke(app, ["status", *place]).exit_code == 0
        assert msgspec.json.decode(CliRunner().invoke(app, ["stop", *place]).stdout) == {"stopped": True}
        assert CliRunner().invoke(app, ["status", *place]).exit_code == 1
        assert not broker.status().running


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_a_broker_ends_with_the_process_that_owns_it_and_its_successor_waits_for_that(
    tmp_path: Path, runtime: Runtime
) -> None:
    script = (
        "import sys, pathlib\n"
        "from rollog.broker import EmbeddedBroker\n"
        "print(EmbeddedBroker(pathlib.Path(sys.argv[1])).start(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        bootstrap = owner.stdout.readline().strip()
        owner.kill()
    with stopped_at_the_end(EmbeddedBroker(tmp_path, runtime=runtime)) as broker:
        assert not broker.status().running
        assert broker.start() == bootstrap
        assert broker.stop()


def test_a_taken_port_is_chosen_anew_and_the_log_kept(tmp_path: Path, runtime: Runtime) -> None:
    with stopped_at_the_end(EmbeddedBroker(tmp_path, runtime=runtime)) as broker:
        first = broker.start()
        write(first, b"at the old port")
        broker.stop()
        host, port = first.split(":")
        with socket.create_server((host, int(port))):
            second = broker.start()
        assert second != first
        assert int(second.split(":")[1]) in PORTS
        assert read(second, 1) == [b"at the old port"]


def test_what_a_failing_broker_said_is_in_the_error(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "data", runtime=fake_runtime(tmp_path, "echo the disk is on fire; exit 7"))
    with pytest.raises(BrokerError, match=r"ended with status 7(.|\n)*the disk is on fire"):
        broker.start()
    assert not broker.status().running


def test_ports_taken_between_choice_and_start_are_chosen_again(tmp_path: Path) -> None:
    script = f'grep ^listeners= "{tmp_path}/data/server.properties" >> "{tmp_path}/tried"; echo Address already in use'
    broker = EmbeddedBroker(tmp_path / "data", runtime=fake_runtime(tmp_path, f"{script}; exit 1"))
    with pytest.raises(BrokerError, match="Address already in use"):
        broker.start()
    tried = (tmp_path / "tried").read_text().splitlines()
    assert len(tried) == 3
    assert len(set(tried)) == 3


def test_reset_only_says_what_it_would_delete_unless_told_to(tmp_path: Path) -> None:
    directory = BrokerDirectory(tmp_path / "data")
    (directory.data / "topic-0").mkdir(parents=True)
    segment = directory.data / "topic-0" / "0.log"
    segment.write_bytes(b"events")
    place = ("--dir", str(directory.path))
    shown = CliRunner().invoke(app, ["reset", *place])
    assert shown.exit_code == 0
    assert f"would delete {directory.data}" in shown.stdout
    assert segment.exists()
    deleted = CliRunner().invoke(app, ["reset", "--yes", *place])
    assert f"deleted {directory.data}" in deleted.stdout
    assert not directory.data.exists()


def test_a_broker_that_never_ran_is_not_running_and_has_nothing_to_stop(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "none")
    assert not broker.status().running
    assert broker.bootstrap == ""
    assert not broker.stop()
    assert broker.reset(yes=True) == []
    assert not (tmp_path / "none").exists()


def test_every_verb_of_the_command_ends_its_help_with_an_example() -> None:
    for verb in ("start", "stop", "status", "logs", "reset"):
        shown = CliRunner().invoke(app, [verb, "--help"])
        assert shown.stdout.rstrip().splitlines()[-1].strip().startswith(f"Example:  rollog broker {verb}")


def test_waiting_asks_at_least_once_and_gives_up_at_its_deadline() -> None:
    asked: list[int] = []
    assert not wait_for(lambda: bool(asked.append(1)), deadline_s=0.0)
    assert asked == [1]
    assert wait_for(lambda: True, deadline_s=0.0)
