"""Generating rollouts through the loop on one core: the way to another verifier's scores without scoring again.

Issuer, generator, executor, verifier and assembler run as `rollog up` runs them, on the demo's settings: its base
policy through the transformers sampler, bubblewrap, everything on the log, up to scored groups, which a pass over
history folds and compares, too. Nothing is trained, so that the policy stays as it is, and many tasks are admitted at
once. The processes are pinned to the core of who calls, client threads and programs in the sandbox included; the
broker has the others. The rate is that of rewards, by their times on the log, over a stretch that begins once the loop
is warm.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.generating import ROOT, base_of
from consumers.reader import Reader
from learner.publishing import policy_event
from producers.publisher import Publisher
from rollog.resolve import save
from rollog.topics import create_topics
from rollog.up import service_command
from schemas.config import LogSettings, Settings, load_settings

SERVICES = ("issuer", "generator", "executor", "verifier", "assembler")
NUM_TASKS = 500
"""Admitted at once: more than a core gets through in the time below, which is checked."""
DEADLINE_S = 600.0
"""Of a task, which waits from the beginning on."""
START_S, WARM_S, TIMED_S = 60.0, 8.0, 25.0
"""At most until the first reward; from it to the stretch that is timed; its length."""
STOP_S = 20.0
POLL_S = 0.5


def rollouts_per_s(log: LogSettings, home: Path) -> float:
    """Return how many rollouts a second come to have a reward. `log` is one that nobody uses."""
    settings = settings_for(log)
    create_topics(log)
    publisher = Publisher(log, source="bench", blob_dir=home / "blobs")
    publisher.send_all([policy_event(publisher, base_of(settings))])
    publisher.close()
    with running(settings, home) as processes:
        times_s = sorted(reward_times(log, home, processes))
    assert len(times_s) < NUM_TASKS * settings.tasks.num_samples, f"all {NUM_TASKS} tasks are done: admit more"
    start_s = times_s[0] + WARM_S
    return sum(start_s <= time_s < start_s + TIMED_S for time_s in times_s) / TIMED_S


def settings_for(log: LogSettings) -> Settings:
    """Return the demo's settings with room for all tasks at once."""
    settings = load_settings([ROOT / "demo" / "demo.toml"])
    replace = msgspec.structs.replace
    return replace(
        settings,
        run="looping",
        log=log,
        policy=replace(settings.policy, base=str(ROOT / settings.policy.base)),
        tasks=replace(settings.tasks, deadline_s=DEADLINE_S),
        admission=replace(settings.admission, max_staleness=0),
        learner=replace(settings.learner, groups_per_step=NUM_TASKS),
    )


@contextmanager
def running(
    settings: Settings,
    home: Path,
    services: Sequence[str] = SERVICES,
    *,
    program: str = "rollog.cli",
    packages: Path | None = None,
) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Have the services run within the block, by the module `program`, with a folder of packages more."""
    saved = save(settings, home / "runs" / settings.run)
    processes = []
    try:
        for name in services:
            command = service_command(name, settings, saved, home=home)
            command.log.parent.mkdir(parents=True, exist_ok=True)
            arguments = [program if argument == "rollog.cli" else argument for argument in command.arguments]
            environ = dict(command.environ)
            if packages is not None:
                environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(packages), environ.get("PYTHONPATH"))))
            with command.log.open("ab") as output:
                processes.append(subprocess.Popen(arguments, env=environ, stdout=output, stderr=output, cwd=ROOT))
        yield processes
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def reward_times(log: LogSettings, home: Path, processes: list["subprocess.Popen[bytes]"]) -> list[float]:
    """Return when rewards were written, in seconds since the epoch, until the timed stretch is over."""
    times_s: list[float] = []
    first_by_s = time.monotonic() + START_S
    reader = Reader(log, ["rewards"], blob_dir=home / "blobs", start="beginning")
    try:
        while not times_s or time.time() < times_s[0] + WARM_S + TIMED_S + POLL_S:
            events = reader.poll(timeout_s=POLL_S)
            assert all(event.record.value is not None for event in events), events
            times_s += [event.time_s for event in events]
            assert times_s or time.monotonic() < first_by_s, f"no reward after {START_S} s; see {home}/runs"
            assert all(process.poll() is None for process in processes), f"a service ended; see {home}/runs"
    finally:
        reader.close()
    return times_s
