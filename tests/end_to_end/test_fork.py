"""`rollog fork` on a real broker with the demo's policy: recorded by one run, trained by others, and live again."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from learner.checkpoint import list_steps
from producers.publisher import Publisher
from rollog.demo import demo
from rollog.exit_codes import ExitCode
from rollog.observer import Observer
from rollog.topics import describe_topics
from rollog.up import first_of, running
from schemas.codec import encode_value
from schemas.config import LogSettings, Settings, load_settings
from schemas.events import Event
from streams.rescoring.in_use import read_in_use
from tests.logs import read_all

POLICY = Path(__file__).parents[2] / "demo" / "policy"
DYING = Path(__file__).parents[1] / "rollog" / "killed_fork.py"
SOURCE, AT, PER_STEP = "origin", 1, 4
DEADLINE_S = 240.0


class Home:
    """A home with a run that was recorded: three steps of four groups, with a shadow that any program satisfies."""

    def __init__(self, settings: Settings, path: Path) -> None:
        self.settings, self.path = settings, path

    def rollog(self, *arguments: str, dies_at: str = "") -> subprocess.CompletedProcess[str]:
        program = [str(DYING), dies_at] if dies_at else ["-m", "rollog.cli"]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [sys.executable, *program, *arguments, "--home", str(self.path)],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )

    def fork(self, name: str, *arguments: str, code: int = 0, dies_at: str = "") -> dict[str, Any]:
        options = ("--at", str(AT), "--run", SOURCE, "--as", name, "--json", *arguments)
        done = self.rollog("fork", *options, dies_at=dies_at)
        assert done.returncode == code, done.stderr
        found: dict[str, Any] = json.loads(done.stdout) if code == 0 else {"error": done.stderr}
        return found

    def log_of(self, name: str) -> LogSettings:
        return msgspec.structs.replace(self.settings.log, namespace=f"{name}.")

    def read(self, name: str, topic: str) -> list[Event[Any]]:
        return read_all(self.log_of(name), topic, self.path / "blobs", dedupe=0)

    def try_read(self, name: str, topic: str) -> list[Event[Any]]:
        """Return what is there; nothing where the topic is not there yet."""
        is_there = all(state.partitions for state in describe_topics(self.log_of(name)))
        return self.read(name, topic) if is_there else []

    def numbered(self, name: str) -> list[Event[Any]]:
        return sorted(self.read(name, "batches"), key=lambda event: event.record.number)


@pytest.fixture(scope="module")
def home(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Home:
    path = tmp_path_factory.mktemp("home")
    flags = [
        f"run={SOURCE}",
        f"log.bootstrap={broker}",
        f"log.namespace={SOURCE}.",
        "log.partitions=3",
        f"policy.base={POLICY}",
        "tasks.num_samples=8",
        "learner.steps=3",
        f"learner.groups_per_step={PER_STEP}",
        "evaluation.every=2",
        "evaluation.num_tasks=4",
        "verifier.shadows={'*' = ['exit_status']}",
    ]
    settings = load_settings(flags=flags)
    report = asyncio.run(demo(settings, home=path, console=Console(file=(path / "out").open("w"))))
    assert report["steps"] == 3
    return Home(settings, path)


def weights(home: Home, name: str) -> list[str]:
    return [event.record.weights_digest_out for event in sorted(home.read(name, "steps"), key=lambda e: e.record.step)]


def test_a_dry_run_says_what_would_be_and_makes_nothing(home: Home) -> None:
    said = home.fork("nothing")
    recorded = {event.key: event for event in home.read(SOURCE, "batches")}
    behind = {ref.event_id for event in home.read(SOURCE, "steps") for ref in event.record.batches[: 10**6]}
    of_first = next(event.record for event in home.read(SOURCE, "steps") if event.record.step == AT)
    assert said["num_behind"] == len(of_first.batches) == PER_STEP
    assert said["num_batches"] == len(recorded) - PER_STEP
    assert said["num_steps"] == said["num_batches"] // PER_STEP >= 2
    assert said["num_left"] == said["num_batches"] % PER_STEP
    assert said["num_groups"] == said["num_batches"] + said["num_behind"] + sum(said["decisions"].values())
    assert not any(state.partitions for state in describe_topics(home.log_of("nothing")))
    assert not (home.path / "runs" / "nothing").exists()
    assert len(behind) == 3 * PER_STEP
    for arguments, words in (
        (["--at", "77"], "there are those of steps 0, 1, 2, 3"),
        (["--objective", "sgd"], "wanted cispo"),
        (["--objective", '{"type": "m2po", "tau": 0}'], "tau"),
        (["--mix", "chess=1"], "one of verbs, repair"),
        (["--mix", "verbs=0"], "all weights are 0"),
        (["--scoring", "nobody"], "'nobody' is not on this log"),
        (["--as", SOURCE], "not 'origin' again"),
        (["--as", "a/b"], "wanted letters"),
        (["--set", "seed=9"], "held-out questions"),
    ):
        done = home.rollog("fork", "--at", str(AT), "--run", SOURCE, "--as", "nothing", *arguments)
        assert done.returncode in (ExitCode.CONFIG, ExitCode.CHECKPOINT), done.stderr
        assert words in done.stderr


def test_a_fork_killed_anywhere_is_the_one_that_nobody_killed(home: Home) -> None:
    whole = home.fork("whole", "--apply", "--train")
    assert whole["num_written"] == whole["num_batches"]
    assert whole["trained"]["is_over"]
    assert whole["trained"]["step"] == AT + whole["num_steps"]
    assert whole["trained"]["num_left"] == whole["num_left"]

    options = ("fork", "--at", str(AT), "--run", SOURCE, "--as", "killed", "--apply", "--train", "--json")
    for dies_at in ("command_given:0", "batch:0", "batch:5", "step_taken:0", "policy_published:1"):
        done = home.rollog(*options, dies_at=dies_at)
        assert done.returncode == -signal.SIGKILL, (dies_at, done.stderr)
    again = home.fork("killed", "--apply", "--train")
    assert again["trained"]["is_over"]
    assert home.fork("killed", "--apply", "--train")["num_written"] == 0

    pairs = list(zip(home.numbered("whole"), home.numbered("killed"), strict=True))
    assert [one.record.number for one, _ in pairs] == list(range(whole["num_batches"]))
    for one, other in pairs:
        assert one.id != other.id
        assert encode_value(msgspec.structs.replace(other.record, run_id="whole")) == encode_value(one.record)
        assert one.causation_id == other.causation_id
    assert weights(home, "whole") == weights(home, "killed")
    assert len(weights(home, "killed")) == whole["num_steps"]
    for step, event in enumerate(sorted(home.read("whole", "steps"), key=lambda event: event.record.step)):
        ids = [batch.id for batch, _ in pairs[step * PER_STEP : (step + 1) * PER_STEP]]
        assert [ref.event_id for ref in event.record.batches] == ids, "not in the order of their numbers"
        assert event.record.policy_version_in == AT + step
    assert home.read("whole", "decisions") == []

    found = json.loads(home.rollog("diff", "whole", "killed", "--json").stdout)
    assert found["first_difference"] == {"batches": None, "weights": None}
    assert found["settings"] == {}
    found = json.loads(home.rollog("diff", SOURCE, "whole", "--json").stdout)
    assert found["first_difference"]["weights"] == AT + 1
    assert found["b"]["forked_from"] == {"run": SOURCE, "step": AT, "scoring_id": "live"}
    assert found["curves"][0]["a"] == found["curves"][0]["b"], "up to where it was forked a fork is its source"
    assert found["settings"]["learner.objective.type"] == ["cispo", "topr"]
    assert found["held_out"][0]["a"] == found["held_out"][0]["b"]

    upstream = {event.id for event in home.read(SOURCE, "rewards")}
    assert {one.causation_id for one, _ in pairs} <= upstream
    other_options = home.fork("killed", "--objective", "m2po", "--apply", code=ExitCode.CONFIG)
    assert "was begun with config_digest" in other_options["error"]


def test_every_step_of_a_fork_comes_out_again_and_its_log_holds_together(home: Home) -> None:
    made = home.fork("checked", "--apply", "--train", "--objective", '{"type": "m2po", "tau": 0.5}')
    recomputed = json.loads(home.rollog("recompute", "--steps", "all", "--run", "checked", "--json").stdout)
    assert (recomputed["steps"], recomputed["match"]) == (made["num_steps"], made["num_steps"])
    assert recomputed["num_bitwise"] == made["num_steps"]
    done = home.rollog("verify-log", "--run", "checked", "--json")
    verified = json.loads(done.stdout)
    assert verified["details"] == []
    assert verified["upstream"] == {f"{SOURCE}.": made["num_batches"]}

    step = json.loads(home.rollog("audit", "step", str(AT + 1), "--run", "checked", "--json").stdout)
    assert step["batches"]["count"] == PER_STEP
    task = step["batches"]["shown"][0]["task_id"]
    chain = json.loads(home.rollog("audit", "rollout", f"{task}/0", "--run", "checked", "--json").stdout)
    assert chain["upstream"]["namespace"] == f"{SOURCE}."
    assert chain["task"]["run_id"] == SOURCE
    assert chain["rollouts"][0]["rewards"]
    assert chain["rollouts"][0]["advantage"] is not None
    assert [(found["run"], found["step"]) for found in chain["steps"]] == [("checked", AT + 1)]
    first = json.loads(home.rollog("audit", "policy", str(AT), "--run", "checked", "--json").stdout)
    assert (first["upstream"]["run"], first["upstream"]["version"]) == (SOURCE, AT)
    assert "origin" in home.rollog("audit", "task", task, "--run", "checked").stdout
    damage(home, "checked", made["num_batches"])


def damage(home: Home, name: str, num_batches: int) -> None:
    """Put a batch on a fork's log that claims another reward than the source has: it is found, and where."""
    event = home.numbered(name)[0]
    rows = tuple(msgspec.structs.replace(row, reward=1.0 - row.reward) for row in event.record.rows)
    other = msgspec.structs.replace(event.record, rows=rows, number=num_batches)
    publisher = Publisher(home.log_of(name), source="test", blob_dir=home.path / "blobs")
    publisher.send_all([msgspec.structs.replace(event, record=other)])
    publisher.close()
    done = home.rollog("verify-log", "--run", name, "--json")
    assert done.returncode == ExitCode.FELL_SHORT
    kinds = json.loads(done.stdout)["by_kind"]
    assert kinds["reward"] == len(rows)


def test_forks_of_another_scoring_and_mix_train_on_that(home: Home) -> None:
    scoring = next(e.record.target for e in home.read(SOURCE, "commands") if e.record.command == "declare_scoring")
    # Hardly any group of so young a policy has programs that run and others that do not.
    few = ("--set", "learner.groups_per_step=1")
    made = home.fork("hacked", "--apply", "--scoring", scoring, "--mix", "verbs=1,repair=0", "--again", *few)
    assert made["scoring_id"] == scoring
    assert made["kept"] == {"verbs": made["num_batches"]}
    assert made["num_behind"] == 0
    assert set(made["batches"]) == {"repair", "verbs"}
    rewards = {
        (event.record.rollout_id): event.record.value
        for event in home.read(SOURCE, "rewards")
        if event.record.scoring_id == scoring
    }
    for event in home.numbered("hacked"):
        assert (event.record.domain, event.record.scoring_id) == ("verbs", scoring)
        assert all(row.reward == rewards[row.rollout_id] for row in event.record.rows)
    in_use = read_in_use(home.log_of("hacked"), "hacked", blob_dir=home.path / "blobs")
    assert in_use.ids_of(["verbs"]) == {"verbs": scoring}, "what it issues itself trains on the same"
    settings = load_settings([home.path / "runs" / "hacked" / "settings.json"])
    assert settings.tasks.domains == {"verbs": 1.0, "repair": 0.0}
    assert (settings.run, settings.policy.name, settings.log.namespace) == ("hacked", "hacked", "hacked.")


def test_what_the_source_quarantined_is_in_no_fork_that_is_begun_after_that(home: Home) -> None:
    before = home.fork("clean", "--again")
    quarantine = ("quarantine", "--run", SOURCE, "--domain", "verbs")
    assert home.rollog(*quarantine, "--apply").returncode == ExitCode.OK
    after = home.fork("clean", "--again")
    assert "quarantined" not in before["decisions"]
    assert after["batches"] == {"repair": before["batches"]["repair"]}
    assert after["decisions"]["quarantined"] >= before["batches"]["verbs"] > 0
    listed = home.rollog("quarantine", "--run", SOURCE, "--list", "--json")
    lifted = json.loads(listed.stdout)["quarantines"][0]["quarantine_id"]
    assert home.rollog("quarantine", "--run", SOURCE, "--lift", lifted, "--apply").returncode == ExitCode.OK
    assert home.fork("clean", "--again")["batches"] == before["batches"]


async def test_a_fork_is_evaluated_and_goes_on_live(home: Home) -> None:
    made = await asyncio.to_thread(home.fork, "alive", "--apply", "--train", "--steps", "2")
    assert (made["num_steps"], made["trained"]["step"]) == (2, AT + 2)
    last = AT + 3
    settings = load_settings([home.path / "runs" / "alive" / "settings.json"], [f"learner.steps={last}"])
    async with running(settings, home=home.path, say=print) as up:
        observer = await asyncio.to_thread(Observer, up)

        def is_done() -> bool:
            step, rates = observer.last_step, observer.accounts.solve_rates
            is_over = step is not None and step.step == last and not observer.accounts.open
            return is_over and all(set(rates.get(version, ())) == {"verbs", "repair"} for version in (AT, last))

        following = observer.run(lambda: None, until=is_done)
        await asyncio.wait_for(first_of(following, up.failed()), DEADLINE_S)
    assert list_steps(home.path / "runs" / "alive" / "checkpoints") == [AT, AT + 1, AT + 2, last]
    tasks = home.read("alive", "tasks")
    assert not {event.id for event in tasks} & {event.id for event in home.read(SOURCE, "tasks")}
    live = next(event.record for event in home.read("alive", "steps") if event.record.step == last)
    issued = {event.key for event in tasks if event.record.split == "train"}
    by_id = {event.id: event for event in home.read("alive", "batches")}
    assert {by_id[ref.event_id].key for ref in live.batches} <= issued
    assert all(by_id[ref.event_id].record.oldest_version >= AT + 2 for ref in live.batches)
    passed = [event.record for event in home.read("alive", "decisions") if event.record.stage == "learner"]
    recorded = [decision for decision in passed if by_id[decision.batch_id or ""].record.is_recorded]
    assert len(recorded) == made["num_left"], "what was left over ends with a word"
    assert {decision.reason for decision in recorded} <= {"stale"}
    verified = json.loads(home.rollog("verify-log", "--run", "alive", "--json").stdout)
    assert verified["details"] == []
    recomputed = json.loads(home.rollog("recompute", "--steps", "all", "--run", "alive", "--json").stdout)
    assert recomputed["match"] == recomputed["steps"] == 3
    report = json.loads(home.rollog("report", "--run", "alive").stdout)
    assert report["findings"] == []


async def test_a_fork_that_follows_takes_the_groups_of_its_source_as_they_come(home: Home) -> None:
    """The source goes on for two steps, while a fork with another objective trains on the same rollouts."""
    options = ("fork", "--at", str(AT), "--run", SOURCE, "--as", "behind", "--apply", "--train", "--json")
    refused = await asyncio.to_thread(home.rollog, *options, "--follow", "--mix", "verbs=2,repair=1")
    assert refused.returncode == ExitCode.CONFIG
    recorded = await asyncio.to_thread(home.fork, "twin", "--mix", "")
    num_steps = recorded["num_steps"] + 2
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    follow = ["-m", "rollog.cli", *options, "--follow", "--steps", str(num_steps), "--home", str(home.path)]

    async def until_killed(step: int) -> None:
        """Start a follower, and kill it when it has taken a step."""
        process = await asyncio.create_subprocess_exec(sys.executable, *follow, env=environ)
        while not any(event.record.step >= step for event in await asyncio.to_thread(home.try_read, "behind", "steps")):
            assert process.returncode is None, "it ended before it was killed"
        process.kill()
        await process.wait()

    await asyncio.wait_for(until_killed(AT + 1), DEADLINE_S)
    follower = await asyncio.create_subprocess_exec(sys.executable, *follow, env=environ, stdout=subprocess.PIPE)
    settings = load_settings([home.path / "runs" / SOURCE / "settings.json"], ["learner.steps=5"])
    async with running(settings, home=home.path, say=print) as up:
        told, _ = await asyncio.wait_for(asyncio.shield(follower.communicate()), DEADLINE_S)
        assert not up.supervisor.restarts or set(up.supervisor.restarts.values()) == {0}
    said = json.loads(told)
    assert said["trained"]["is_over"]
    assert said["trained"]["step"] == AT + num_steps

    numbered = home.numbered("behind")
    assert [event.record.number for event in numbered] == list(range(len(numbered)))
    assert len({event.key for event in numbered}) == len(numbered)
    live = [event.key for event in numbered[recorded["num_batches"] :]]
    assert len(live) >= 2 * PER_STEP - recorded["num_left"]
    of_source = {event.key: event.record for event in home.read(SOURCE, "batches")}
    for event in numbered:
        assert [row.reward for row in event.record.rows] == [row.reward for row in of_source[event.key].rows]
    again = json.loads(home.rollog("recompute", "--steps", "all", "--run", "behind", "--json").stdout)
    assert again["match"] == again["steps"] == num_steps
    assert json.loads(home.rollog("verify-log", "--run", "behind", "--json").stdout)["details"] == []
