"""`rollog use` on a real broker: issuer, verifier, assembler as processes; a switch, a kill in between, and back."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from consumers.bounds import read_state
from consumers.feed import BatchFeed
from consumers.reader import Reader, end_offsets
from producers.publisher import Publisher
from producers.turns import end_id, turn_id
from rollog.exit_codes import ExitCode
from rollog.verify_log import verify
from schemas.config import LogSettings, Settings, load_settings
from schemas.events import Event
from schemas.executions import Action
from streams.executor import execution_id
from streams.rescoring.judge import scoring_for
from streams.shadows import named
from tests import samples
from tests.end_to_end.test_rescore import rollog
from tests.end_to_end.test_stages import Services
from tests.history import derived, policy, take_step
from tests.logs import new_log, read_all, wait_for
from tests.streams.stage_fakes import ok

RUN = "using"
PER_STEP = 2
DEADLINE_S = 120.0


class Run:
    """A run whose generator, executor and learner are played by hand."""

    def __init__(self, log: LogSettings, home: Path) -> None:
        flags = [
            f"run={RUN}",
            "tasks.num_samples=2",
            "tasks.domains={verbs = 1}",
            "tasks.deadline_s=3600",
            "admission.max_staleness=0",
            f"learner.groups_per_step={PER_STEP}",
            "verifier.shadows={'*' = ['exit_status']}",
        ]
        self.settings: Settings = msgspec.structs.replace(load_settings(flags=flags), log=log)
        self.log, self.home, self.blobs = log, home, home / "blobs"
        self.publisher = Publisher(log, source="test", blob_dir=self.blobs)
        self.services = Services(self.settings, home)
        self.played: set[str] = set()
        self.num_steps = 0
        self.publisher.send_all([policy(RUN, 0)])

    def use(self, *arguments: str, code: ExitCode = ExitCode.OK) -> dict[str, Any]:
        done = rollog(self.log, self.home, "use", *arguments, "--json", "--config", str(self.services.config))
        assert done.returncode == code, done.stderr
        found: dict[str, Any] = json.loads(done.stdout) if code == ExitCode.OK else {"error": done.stderr}
        return found

    def tasks(self) -> list[Event[Any]]:
        return sorted(read_all(self.log, "tasks", self.blobs), key=lambda event: event.record.index)

    def batches(self) -> dict[str, Event[Any]]:
        return {event.key: event for event in read_all(self.log, "batches", self.blobs)}

    def play(self, num_tasks: int) -> list[Event[Any]]:
        """Wait until so many tasks are out, write rollouts of those that are new, and wait for their batches."""
        wait_for(lambda: len(self.tasks()) >= num_tasks, "tasks", DEADLINE_S)
        new = [task for task in self.tasks() if task.key not in self.played]
        self.played |= {task.key for task in new}
        for task in new:
            self.publisher.send_all([event for sample in range(2) for event in rollout(task, sample)])
        wait_for(lambda: {task.key for task in new} <= set(self.batches()), "batches", DEADLINE_S)
        found = self.batches()
        return [found[task.key] for task in new]

    def step(self, batches: list[Event[Any]]) -> None:
        self.num_steps += 1
        self.publisher.send_all([take_step(RUN, self.num_steps, batches), policy(RUN, self.num_steps)])


def rollout(task: Event[Any], sample: int) -> list[Event[Any]]:
    """Sample 0 prints what is wrong and runs; sample 1 prints what is right, and breaks after it."""
    name = f"{task.key}/{sample}"
    about: dict[str, Any] = {"task_id": task.key, "rollout_id": name, "domain": "verbs"}
    turn = samples.turn(
        sample, versions=samples.ids(0, 0, 0), token_ids=samples.ids(8, 9, sample), action=Action(code="x"), **about
    )
    said = derived(turn, turn_id(name, 0), task, 0.1)
    gold = task.record.verifier.expected
    outcome = ok("wrong") if sample == 0 else ok(gold)
    if task.record.scoring_id != "live":
        outcome = outcome if sample == 0 else msgspec.structs.replace(outcome, status="nonzero", exit_code=1)
    ran = derived(samples.execution(sample, outcome=outcome, **about), execution_id(said.id), said, 0.1)
    return [said, ran, derived(samples.ended(sample, **about), end_id(name), ran, 0.1)]


def taken(run: Run, scoring: str) -> list[str]:
    """Return the ids of the batches that a learner of this setting takes."""
    feed = BatchFeed.open(
        partial(Reader, run.log, blob_dir=run.blobs),
        run_id=RUN,
        offsets={},
        seen=(),
        window=100,
        on_undecodable=lambda raw, error: pytest.fail(str(error)),
        scoring_id=scoring,
    )
    total = sum(end_offsets(run.log, ["batches"]).values())
    try:
        found: list[str] = []

        def all_read() -> bool:
            feed.gather(100, lambda batch: None)
            found.extend(event.id for event in feed.take())
            return len(found) + feed.num_skipped == total

        wait_for(all_read, "the feed")
        return found
    finally:
        feed.close()


def test_a_scoring_becomes_the_one_that_trains_and_gives_way_again(broker: str, namespace: str, tmp_path: Path) -> None:
    run = Run(new_log(broker, namespace, partitions=2), tmp_path)
    scoring = scoring_for(named("exit_status", run.settings.verifier)).scoring_id
    for name in ("issuer", "verifier", "assembler"):
        run.services.start(name)
    try:
        switch(run, scoring)
    finally:
        codes = run.services.stop()
        run.publisher.close()
    assert set(codes.values()) == {0}


def switch(run: Run, scoring: str) -> None:
    live = run.play(PER_STEP)
    assert [[row.reward for row in event.record.rows] for event in live] == [[0.0, 1.0]] * PER_STEP

    assert "'nobody' is not on this log" in run.use("nobody", "--apply", code=ExitCode.CONFIG)["error"]
    assert "run 'using' issues verbs" in run.use(scoring, "--domain", "chess", code=ExitCode.CONFIG)["error"]
    before = end_offsets(run.log, ["commands"])
    assert run.use(scoring)["after"] == {"verbs": scoring}
    assert end_offsets(run.log, ["commands"]) == before, "a dry run wrote something"
    assert run.use(scoring, "--apply")["num_written"] == 1
    assert run.use(scoring, "--domain", "verbs", "--apply")["num_written"] == 0, "in use already"

    # Between the command and the next task: what comes after it is issued by one that never saw the others go out.
    run.services.kill("issuer")
    run.services.start("issuer")
    run.step(live)
    used = run.play(2 * PER_STEP)
    assert [(task.record.index, task.record.scoring_id) for task in run.tasks()] == [
        (0, "live"),
        (1, "live"),
        (2, scoring),
        (3, scoring),
    ]
    for event in used:
        assert (event.record.scoring_id, event.record.is_rebuilt) == (scoring, False)
        assert [row.reward for row in event.record.rows] == [1.0, 0.0]
    rewards = [event.record for event in read_all(run.log, "rewards", run.blobs)]
    of_used = [reward for reward in rewards if reward.task_id in {event.key for event in used}]
    assert [(reward.scoring_id, reward.is_own) for reward in of_used] == [(scoring, True)] * 2 * PER_STEP

    run.step(used)  # which the issuer has to understand as the end of those tasks
    more = run.play(3 * PER_STEP)
    assert {event.record.scoring_id for event in more} == {scoring}
    assert run.use("live", "--apply")["before"] == {"verbs": scoring}
    run.step(more)
    back = run.play(4 * PER_STEP)
    assert {event.record.scoring_id for event in back} == {"live"}

    ends = [event.id for event in (*live, *used, *more, *back)]
    assert sorted(taken(run, "live")) == sorted(ends)
    rebuild(run, scoring, live + back, used + more)
    check_books(run, ends)


def rebuild(run: Run, scoring: str, under_live: list[Event[Any]], under_scoring: list[Event[Any]]) -> None:
    """Make history's batches under the scoring: only of what was not issued under it, and for its learner alone."""
    before = taken(run, "live")
    place = ("--config", str(run.services.config))
    done = rollog(run.log, run.home, "rebatch", "--scoring", scoring, "--apply", "--json", *place)
    said = json.loads(done.stdout)
    # Both programs of those groups ran to their end, so that the scoring sees no difference between them.
    assert (said["num_batches"], said["decisions"]) == (0, {"zero_variance": len(under_live)})
    assert taken(run, "live") == before
    assert sorted(taken(run, scoring)) == sorted(event.id for event in under_scoring)


def check_books(run: Run, ends: list[str]) -> None:
    open_reader = partial(Reader, run.log, blob_dir=run.blobs)
    bounds = read_state(run.log).bounds
    found = verify(open_reader, run.blobs, judged=bounds, read_to=bounds, scratch=run.home / "index", strict=False)
    assert list(found.details) == []
    assert found.counts["open"] == 0
    place = ("--config", str(run.services.config))
    report = json.loads(rollog(run.log, run.home, "report", *place).stdout)
    assert report["findings"] == []
    assert report["batches"] == {"trained": 3 * PER_STEP, "waiting": PER_STEP}
    assert len(set(ends)) == len(ends)
