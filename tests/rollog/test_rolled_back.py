"""A run that went back, as those see it who verify it and ask for lineage."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from consumers.index import Index
from consumers.lineage import Lineage
from rollog.audit import chain_of
from rollog.verify_log import VerifyReport, verify
from schemas.codec import new_event
from schemas.recalls import rollback_command, rollback_id
from tests.history import MemoryLog, policy, take_step, weights, write_history

replace = msgspec.structs.replace
BACK, NEW = 2, 5
"""Steps 1 to 4 are taken by `write_history`; step 5 goes back to version 2."""


@pytest.fixture
def log(tmp_path: Path) -> MemoryLog:
    log = MemoryLog(tmp_path / "blobs")
    write_history(log.send_all)
    command = rollback_command("golden", "policy", BACK, at=4, given_by="test")
    name = rollback_id("golden", "policy", BACK, at=4)
    log.send(new_event(command, id=name, key="golden", source="test"))
    step = take_step("golden", NEW, [])
    record = replace(step.record, weights_digest_out=weights("golden", BACK), restored_from=BACK)
    log.send(replace(step, record=record, causation_id=name))
    version = policy("golden", NEW)
    log.send(replace(version, record=replace(version.record, digest=weights("golden", BACK), parent=BACK)))
    return log


def verified(log: MemoryLog, tmp_path: Path) -> VerifyReport:
    return verify(
        log.open_reader,  # type: ignore[arg-type]
        tmp_path / "blobs", judged=log.bounds, read_to=log.bounds, scratch=tmp_path / "scratch", strict=False,
    )  # fmt: skip


def test_a_run_that_went_back_holds(log: MemoryLog, tmp_path: Path) -> None:
    assert verified(log, tmp_path).details == ()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"restored_from": 1}, "went back to version 1, but made"),
        ({"restored_from": 77}, "no such version is known"),
        ({"weights_digest_out": "sha256:x"}, "and that version is"),
    ],
)
def test_a_step_that_did_not_come_to_the_version_that_it_names_is_found(
    log: MemoryLog, tmp_path: Path, change: dict[str, Any], what: str
) -> None:
    step = next(event for event in log.events("steps") if event.record.step == NEW)
    log.edit(step.position, lambda record: replace(record, **change))
    found = [finding for finding in verified(log, tmp_path).details if finding.kind == "restored"]
    assert [finding.position for finding in found] == [str(step.position)]
    assert what in found[0].what


def test_a_step_that_went_back_and_trained_is_found(log: MemoryLog, tmp_path: Path) -> None:
    first, step = (next(e for e in log.events("steps") if e.record.step == number) for number in (1, NEW))
    log.edit(step.position, lambda record: replace(record, batches=first.record.batches))
    kinds = verified(log, tmp_path).by_kind
    assert kinds["restored"] == 1
    assert kinds["trained twice"] == 1


def test_what_was_left_behind_is_in_the_past_of_nothing_that_follows(log: MemoryLog, tmp_path: Path) -> None:
    index = Index(tmp_path / "index")
    index.catch_up(log.open_reader, log.bounds)  # type: ignore[arg-type]
    lineage = Lineage(index, log.open_reader, log.bounds)  # type: ignore[arg-type]

    def descendants(step: int) -> list[int]:
        (family,) = chain_of(lineage, index, "step", str(step), run="golden")["descendants"]
        return list(family["shown"])

    assert (descendants(2), descendants(3), descendants(NEW)) == ([2, 3, 4, 5], [3, 4], [5])
    assert lineage.descendants([("golden", "policy", 3), ("golden", "policy", NEW)])[0]["shown"] == [3, 4, 5]
    step = chain_of(lineage, index, "step", str(NEW), run="golden")
    assert (step["step"]["restored_from"], step["batches"]["count"]) == (BACK, 0)
    made = chain_of(lineage, index, "policy", str(NEW), run="golden")
    assert (made["parent"]["version"], made["made_by"]["restored_from"]) == (BACK, BACK)
