"""A fork's learner, in the process of the verb that made it."""

import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial

import msgspec

from consumers.reader import Reader
from consumers.runtime import Runtime
from consumers.telemetry import Telemetry
from learner.checkpoint import list_steps, only_learner
from learner.loop import follow_on, train_on
from learner.model import code_version
from producers.publisher import Publisher
from rollog.following import Follower
from rollog.forking import Planned
from rollog.options import Invocation

POLL_S = 0.5


def run_fork_learner(
    source: Invocation,
    planned: Planned,
    *,
    last_step: int,
    follows: bool,
    stop: threading.Event,
    on_step: Callable[[int], None],
) -> tuple[int, int]:
    """Train until it is over or told to stop; returns the last step and how many batches no step took.

    Raises RollogError.
    """
    settings = planned.settings
    learner = msgspec.structs.replace(settings.learner, offline=True, steps=last_step)
    runtime = Runtime(
        settings=msgspec.structs.replace(settings, learner=learner),
        home=source.home,
        instance="fork-learner-0",
        telemetry=Telemetry("learner"),
        stop=stop,
    )
    root = runtime.run_dir / "checkpoints"
    open_reader = partial(Reader, settings.log, blob_dir=source.blob_dir)
    publisher = Publisher(settings.log, source="rollog/fork", blob_dir=source.blob_dir, code_version=code_version())
    with closing(publisher), only_learner(root):
        if not follows:
            num_left = train_on(runtime, publisher, open_reader, on_step)
            return list_steps(root)[-1], num_left
        fork = planned.fork
        follower = Follower(
            source.settings.log,
            settings.log,
            publisher,
            blob_dir=source.blob_dir,
            source_run=fork.source_run,
            run_id=fork.run_id,
            scoring_id=fork.scoring_id,
            mix=fork.mix,
            behind=planned.forking.behind,
        )
        with closing(follower):
            follow_on(runtime, publisher, open_reader, News(follower, stop).wait, on_step)
            taken = (list_steps(root)[-1] - fork.step) * learner.groups_per_step
            return list_steps(root)[-1], follower.total - taken


class News:
    """What came since it was asked last."""

    def __init__(self, follower: Follower, stop: threading.Event) -> None:
        self._follower, self._stop, self._told = follower, stop, 0

    def wait(self) -> int:
        """Return how many batches the fork has, once there are more than were told of, or when told to stop."""
        self._follower.copy(timeout_s=0)
        while self._follower.total <= self._told and not self._stop.is_set():
            self._follower.copy(timeout_s=POLL_S)
        self._told = self._follower.total
        return self._told
