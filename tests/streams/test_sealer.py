"""The sealer on a real broker: it seals by itself, and goes on where another instance was."""

import itertools
import threading
import time
from functools import partial
from pathlib import Path

import msgspec
import pytest

from consumers.bounds import read_state
from consumers.reader import Reader
from consumers.runtime import Runtime
from consumers.sealing import TOPIC, last_seals, read_seals
from consumers.telemetry import Telemetry
from producers.publisher import Publisher
from schemas.config import LogSettings, Settings
from schemas.seals import LogSealed
from streams.sealer import run_sealer
from tests.history import write_history
from tests.logs import new_log, read_all, wait_for


def write(log: LogSettings, home: Path, run: str) -> None:
    publisher = Publisher(log, source="rollog/test", blob_dir=home / "blobs")
    write_history(publisher.send_all, start_s=time.time(), chunk=6, run=run)
    publisher.close()


def sealed(log: LogSettings, home: Path) -> list[LogSealed]:
    return read_seals(partial(Reader, log, blob_dir=home / "blobs"), read_state(log).bounds)


def is_all_sealed(log: LogSettings, home: Path) -> bool:
    ends = {at: seal.end for at, seal in last_seals(sealed(log, home)).items()}
    return ends == {at: end for at, (_, end) in read_state(log).bounds.items() if end and at[0] != TOPIC}


def start(log: LogSettings, home: Path, *, every_s: float) -> tuple[threading.Thread, threading.Event]:
    stop = threading.Event()
    settings = Settings(log=msgspec.structs.replace(log, seal_every_s=every_s))
    runtime = Runtime(settings=settings, home=home, instance="sealer-0", telemetry=Telemetry("sealer"), stop=stop)
    thread = threading.Thread(target=run_sealer, args=(runtime,))
    thread.start()
    return thread, stop


@pytest.fixture
def log(broker: str, namespace: str) -> LogSettings:
    return new_log(broker, namespace)


def test_what_the_log_gains_is_sealed_at_intervals_and_by_the_next_instance(log: LogSettings, tmp_path: Path) -> None:
    for run in ("first", "second"):
        thread, stop = start(log, tmp_path, every_s=0.05)
        write(log, tmp_path, run)
        wait_for(lambda: is_all_sealed(log, tmp_path), "sealed")
        stop.set()
        thread.join()
    seals = sealed(log, tmp_path)
    stretches = sorted((seal.topic, seal.partition, seal.first, seal.end) for seal in seals)
    for one, next_one in itertools.pairwise(stretches):
        if one[:2] == next_one[:2]:
            assert one[3] == next_one[2], "a stretch was left out or sealed twice"


def test_nothing_is_sealed_where_the_interval_is_zero(log: LogSettings, tmp_path: Path) -> None:
    write(log, tmp_path, "first")
    thread, stop = start(log, tmp_path, every_s=0.0)
    stop.set()
    thread.join()
    assert read_all(log, TOPIC, tmp_path) == []
