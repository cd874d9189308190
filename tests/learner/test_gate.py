"""While held-out results are down, versions say that they are for training alone; training goes on all the same."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from learner.gate import Gate
from learner.loop import learn
from schemas.codec import new_event
from schemas.curriculum import CurriculumSettings
from schemas.mixes import mix_id
from schemas.policies import newest_for_use
from tests.learner.file_log import FilePublisher, FileReader, append, read_all
from tests.learner.policies import batch_event, make_batch, make_policy, make_runtime
from tests.samples import mix

STEPS = 3


def put(log: Path, version: int, *, held: bool, run_id: str = "test") -> None:
    record = mix(version, run_id=run_id, held=held)
    append(log, "mixes", new_event(record, id=mix_id(run_id, version), key=run_id, source="test"))


def train(home: Path, base: Path, *, steps: int, hold: bool = True) -> list[Any]:
    """Train up to a step and return what was published, by version."""
    log = home / "log"
    runtime = make_runtime(home, base, steps=steps)
    curriculum = CurriculumSettings(enabled=True, hold=hold)
    runtime = msgspec.structs.replace(
        runtime, settings=msgspec.structs.replace(runtime.settings, curriculum=curriculum)
    )
    reader: Any = partial(FileReader, log, num_partitions=1)

    def stop_at_the_end(event: Any) -> None:
        if getattr(event.record, "version", None) == steps:
            runtime.stop.set()

    learn(runtime, FilePublisher(log, stop_at_the_end), reader)  # type: ignore[arg-type]
    return sorted((event.record for event in read_all(log, "policies")), key=lambda one: one.version)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_policy(tmp_path_factory.mktemp("base"))


def fill(log: Path) -> None:
    for index in range(2 * STEPS):
        append(log, "batches", batch_event(make_batch(index)))


def test_versions_are_held_from_the_mix_that_says_so_until_the_one_that_does_not(base: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    fill(log)
    put(log, 1, held=False)
    train(tmp_path, base, steps=1)
    put(log, 2, held=True)
    put(log, 2, held=False)  # of two with one version the first counts
    put(log, 9, held=False, run_id="other")
    train(tmp_path, base, steps=2)
    put(log, 3, held=False)
    found = train(tmp_path, base, steps=3)
    assert [one.version for one in found] == [0, 1, 2, 3]
    assert [one.held for one in found] == ["", "", "mix 2: held-out results fell in repair", ""]
    newest, before = newest_for_use(found), newest_for_use(found[:3])
    assert newest is not None
    assert before is not None
    assert (newest.version, before.version) == (3, 1)
    assert newest_for_use(found[2:3]) is None


def test_nothing_is_held_unless_the_settings_ask_for_it(base: Path, tmp_path: Path) -> None:
    fill(tmp_path / "log")
    put(tmp_path / "log", 1, held=True)
    assert {one.held for one in train(tmp_path, base, steps=2, hold=False)} == {""}


def test_a_gate_hears_of_mixes_that_come_later(tmp_path: Path) -> None:
    reader: Any = partial(FileReader, tmp_path, num_partitions=1)
    put(tmp_path, 1, held=False)
    gate = Gate(reader, "test")
    assert gate.why == ""
    put(tmp_path, 2, held=True)
    gate.poll()
    assert gate.why == "mix 2: held-out results fell in repair"
    gate.close()
