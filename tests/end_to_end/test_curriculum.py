"""Curriculum and issuer on a real broker, killed and started again; everything else is played by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from producers.publisher import Publisher
from rollog.exit_codes import ExitCode
from schemas.codec import new_event
from schemas.config import LogSettings, Settings, load_settings
from schemas.decisions import Decision
from schemas.events import Event
from schemas.ids import derive_id
from schemas.mixes import MixRevised, mix_id
from schemas.tasks import TaskIssued
from tests import samples
from tests.end_to_end.test_rescore import rollog
from tests.end_to_end.test_stages import Services
from tests.logs import new_log, read_all, wait_for

RUN, NUM_SAMPLES, NUM_OPEN = "mixed", 2, 6
DEADLINE_S = 120.0


class Run:
    """A run of issuer and curriculum."""

    def __init__(self, log: LogSettings, home: Path) -> None:
        flags = [
            f"run={RUN}",
            f"tasks.num_samples={NUM_SAMPLES}",
            "tasks.domains={verbs = 1, repair = 1}",
            "tasks.deadline_s=3600",
            "admission.max_staleness=0",
            f"learner.groups_per_step={NUM_OPEN}",
            "curriculum.enabled=true",
            "curriculum.every=4",
            "curriculum.levels={verbs = 3}",
        ]
        self.settings: Settings = msgspec.structs.replace(load_settings(flags=flags), log=log)
        self.log, self.home, self.blobs = log, home, home / "blobs"
        self.publisher = Publisher(log, source="test", blob_dir=self.blobs)
        self.services = Services(self.settings, home)
        self.done: set[str] = set()

    def verb(self, *arguments: str, code: ExitCode = ExitCode.OK) -> dict[str, Any]:
        place = ("--json", "--config", str(self.services.config))
        done = rollog(self.log, self.home, "curriculum", *arguments, *place)
        assert done.returncode == code, done.stderr + done.stdout
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
        return found

    def tasks(self) -> list[TaskIssued]:
        found: dict[int, TaskIssued] = {}
        for event in read_all(self.log, "tasks", self.blobs):
            found.setdefault(event.record.index, event.record)
        return [found[index] for index in sorted(found)]

    def mixes(self) -> list[MixRevised]:
        found: dict[int, MixRevised] = {}
        for event in read_all(self.log, "mixes", self.blobs):
            found.setdefault(event.record.version, event.record)
        return [found[version] for version in sorted(found)]

    def play(self, until: Callable[[], bool], what: str) -> None:
        """Reward what is issued and end it, until something holds: verbs are always right, repair half so."""

        def turn() -> bool:
            for task in self.tasks():
                if task.task_id not in self.done:
                    self.done.add(task.task_id)
                    self.publisher.send_all(ends_of(task))
            return until()

        wait_for(turn, what, DEADLINE_S)

    def play_more(self, num_tasks: int) -> None:
        """Play until there are so many tasks more."""
        wanted = len(self.done) + num_tasks
        self.play(lambda: len(self.done) >= wanted, f"{num_tasks} tasks more")


def ends_of(task: TaskIssued) -> list[Event[Any]]:
    about = {"task_id": task.task_id, "domain": task.domain}
    values = (1.0, 1.0) if task.domain == "verbs" else (1.0, 0.0)
    rewards = [
        samples.reward(sample, value=value, rollout_id=f"{task.task_id}/{sample}", **about)
        for sample, value in enumerate(values)
    ]
    # Whatever ends it makes room for another.
    end = Decision(run_id=RUN, stage="assembler", reason="zero_variance", **about)
    return [
        new_event(record, id=derive_id(task.task_id, "test", place), key=task.task_id, source="test")
        for place, record in enumerate((*rewards, end))
    ]


@pytest.fixture
def run(broker: str, namespace: str, tmp_path: Path) -> Run:
    return Run(new_log(broker, namespace, partitions=2), tmp_path)


def test_a_mix_is_revised_obeyed_killed_commanded_and_borne_out_by_the_log(run: Run) -> None:
    run.services.start("curriculum")
    wait_for(lambda: len(run.mixes()) == 1, "the first mix", DEADLINE_S)
    run.services.start("issuer")
    try:
        goes_on_through_kills(run)
        is_changed_by_command(run)
    finally:
        codes = run.services.stop()
    assert set(codes.values()) == {0}
    is_borne_out(run)
    run.publisher.close()


def goes_on_through_kills(run: Run) -> None:
    run.play_more(20)
    run.services.kill("issuer")
    run.services.start("issuer")
    run.play_more(20)
    run.services.kill("curriculum")
    num_mixes = len(run.mixes())
    run.play_more(8)  # the issuer goes on by the last mix
    run.services.start("curriculum")
    run.play(lambda: len(run.mixes()) > num_mixes and run.mixes()[-1].domains["verbs"].level == 2.0, "the last level")
    run.play_more(12)
    tasks, mixes = run.tasks(), run.mixes()
    assert [task.index for task in tasks] == list(range(len(tasks)))
    assert [mix.version for mix in mixes] == list(range(1, len(mixes) + 1))
    assert mixes[0].cause == "start"
    assert mixes[0].config
    assert max(task.level for task in tasks if task.domain == "verbs") == 2
    assert {task.level for task in tasks if task.domain == "repair"} == {0}
    last = mixes[-1].domains
    assert last["verbs"].level == 2.0
    assert last["verbs"].weight < last["repair"].weight, "what teaches nothing weighs no less"
    assert (last["verbs"].zero_variance, last["repair"].zero_variance) == (1.0, 0.0)


def is_changed_by_command(run: Run) -> None:
    before = len(run.mixes())
    assert "has repair, verbs" in run.verb("set", "--pause", "chess", code=ExitCode.CONFIG)["error"]
    assert "nothing to change" in run.verb("set", code=ExitCode.CONFIG)["error"]
    assert run.verb("set", "--pause", "repair")["applied"] is False
    assert run.verb("set", "--pause", "repair", "--apply")["applied"] is True
    wait_for(lambda: run.mixes()[-1].domains["repair"].status == "paused", "the pause", DEADLINE_S)
    paused = next(mix for mix in run.mixes() if mix.domains["repair"].status == "paused")
    assert paused.version > before
    assert (paused.cause, paused.domains["repair"].weight) == ("command", 0)
    run.play(lambda: run.tasks()[-1].mix_version >= paused.version, "tasks under that mix")
    under = [task.domain for task in run.tasks() if task.mix_version >= paused.version]
    assert set(under) == {"verbs"}
    shown = run.verb("show", "--tokens")
    assert shown["domains"]["repair"]["status"] == "paused"
    assert (shown["policy"], shown["effective_share"]) == ({"newest": None, "for_use": None}, {})
    run.verb("set", "--resume", "repair", "--apply")
    wait_for(lambda: run.mixes()[-1].domains["repair"].status == "active", "the end of the pause", DEADLINE_S)
    run.play(lambda: run.tasks()[-1].mix_version > paused.version, "tasks under a later mix")


def is_borne_out(run: Run) -> None:
    tasks, mixes = run.tasks(), run.mixes()
    found = run.verb("verify")
    under = sum(task.mix_version > 0 for task in tasks)
    assert found["match"], found
    assert (found["num_mixes"], found["num_tasks"]) == (len(mixes), under)
    assert found["num_by_settings"] == len(tasks) - under
    newest = mixes[-1]
    lighter = msgspec.structs.replace(newest.domains["verbs"], weight=newest.domains["verbs"].weight - 7)
    forged = msgspec.structs.replace(
        newest, version=newest.version + 1, domains={**newest.domains, "verbs": lighter}, cause="groups"
    )
    wrong = msgspec.structs.replace(tasks[-1], task_id="ff" * 16, index=len(tasks), mix_version=newest.version, level=9)
    run.publisher.send_all(
        [
            new_event(forged, id=mix_id(RUN, forged.version), key=RUN, source="test"),
            new_event(wrong, id=wrong.task_id, key=wrong.task_id, source="test"),
        ]
    )
    found = run.verb("verify", code=ExitCode.FELL_SHORT)
    assert not found["match"]
    text = "\n".join(found["differences"])
    assert f"mix {forged.version}: verbs: weight is {lighter.weight}, the log gives" in text
    assert f"task {len(tasks)}: {wrong.domain} at level 9, mix {newest.version} gives" in text
