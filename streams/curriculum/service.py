"""The curriculum service: follows the log and revises the mix of domains.

    tasks, executions, rewards, decisions, evals, commands --fold--> MixRevised --> issuer

It has no state but the log: on start all that its revisions were folded from is folded again. A revision says up to
where it folded, so that anybody can do the same. What must hold: the ends of what was rewarded are taken before those
of what was issued, so that a reward's task is never missing; and a revision holds once it was read back from the log,
where another instance's may stand before it.
"""

import logging
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from consumers.reader import Reader, end_offsets
from consumers.runtime import Runtime
from producers.blobs import BlobStore
from producers.publisher import Publisher
from producers.tasks import facts_of
from schemas.errors import LogError
from schemas.mix_commands import SET_MIX
from schemas.mixes import MILLION, TOPIC, MixRevised, mix_id
from streams.curriculum import lean
from streams.curriculum.fold import MixFold, Rules
from streams.curriculum.following import Follower, door, name_of, topics_of
from streams.curriculum.revisions import Revisions, read_revisions, refold

LOGGER = logging.getLogger("rollog.curriculum")
POLL_S = 0.2
READ_BACK_S = 30.0
EFFECTS = ("commands", "decisions", "evals", "deadletters")
BETWEEN = ("rewards", "executions", lean.ADAPTED)


def run_curriculum(runtime: Runtime) -> None:
    """Run the service until it is told to stop. Raises LogError."""
    if not runtime.settings.curriculum.enabled:
        runtime.stop.wait()
        return
    publisher = Publisher(runtime.log, source=f"rollog/{runtime.instance}", blob_dir=runtime.blob_dir)
    try:
        curriculum = Curriculum(runtime, publisher, door(runtime.log, runtime.blob_dir))
        try:
            curriculum.recall()
            while not runtime.stop.is_set():
                curriculum.turn()
        finally:
            curriculum.close()
    finally:
        publisher.close()


class Curriculum:
    """What the service knows, and what it does with it."""

    def __init__(self, runtime: Runtime, publisher: Publisher, open_reader: Callable[..., Reader]) -> None:
        settings = runtime.settings
        self._runtime, self._publisher, self._open_reader = runtime, publisher, open_reader
        self._rules = Rules.of(settings, facts_of(settings))
        self.fold = MixFold(self._rules)
        topics = topics_of(adapts=settings.curriculum.adapt)
        self._follower = Follower(open_reader, topics, BlobStore(runtime.blob_dir), bounded=False)
        self._revisions = Revisions(settings.run)
        self._read_back = open_reader([TOPIC], start="beginning", on_undecodable=lambda raw, error: None)

    def recall(self) -> None:
        """Fold again what the revisions on the log were folded from."""
        started_s, num_differing = time.monotonic(), 0
        recorded = read_revisions(self._open_reader, self._runtime.settings.run)
        for mix, again in refold(self.fold, self._follower, recorded):
            num_differing += mix != again
            self._runtime.telemetry.progress()
            if self._runtime.stop.is_set():
                return
        if num_differing:
            LOGGER.warning("%d revisions do not come out as they stand: see `rollog curriculum verify`", num_differing)
        if self.fold.version:
            LOGGER.info("folded %d revisions again in %.1f s", self.fold.version, time.monotonic() - started_s)

    def turn(self) -> None:
        """Read what there is, and revise where that is enough."""
        telemetry = self._runtime.telemetry
        num_read = self._follower.poll()
        telemetry.progress(0)
        if self.is_due():
            with telemetry.busy():
                self.revise()
        elif not num_read:
            self._runtime.stop.wait(POLL_S)

    def is_due(self) -> bool:
        """Return whether there was no revision yet, a command came, or enough groups' worth of rewards."""
        if self.fold.version == 0 or self.fold.rules != self._rules:
            return True
        run, waiting = self._runtime.settings.run, self._follower.waiting
        commands = (record.record for _, record in waiting.get(("commands", 0), ()))
        if any((command.command, command.target) == (SET_MIX, run) for command in commands):
            return True
        wanted = self._rules.curriculum.every * self._rules.num_samples
        if sum(len(records) for (topic, _), records in waiting.items() if topic == "rewards") < wanted:
            return False
        own = {record.task_id for record in self._waiting("tasks") if (record.run_id, record.split) == (run, "train")}
        ours = (1 for record in self._waiting("rewards") if record.task_id in own or record.task_id in self.fold.open)
        return sum(islice(ours, wanted)) == wanted

    def revise(self) -> None:
        """Write the next revision, and wait until it is the one that holds. Raises LogError."""
        self.fold.rules = self._rules
        ends = self.ends()
        for record in self._follower.stretch(ends):
            self.fold.take(record)
        mix = self.fold.revise(ends)
        event = self._publisher.event(mix, id=mix_id(mix.run_id, mix.version), key=mix.run_id, subject=mix.run_id)
        self._publisher.send_all([event])
        self._hold(mix)
        telemetry = self._runtime.telemetry
        telemetry.events.labels(TOPIC, "out").inc()
        for name, one in mix.domains.items():
            telemetry.mix_weight.labels(name).set(one.weight / MILLION)
            telemetry.mix_level.labels(name).set(one.level)
            telemetry.zero_variance.labels(name).set(one.zero_variance)
        LOGGER.info("mix %d, for %s: %s", mix.version, mix.cause, in_short(mix))

    def ends(self) -> dict[str, int]:
        """Return up to where the next revision folds. Raises LogError."""
        log, positions = self._runtime.log, self._follower.positions
        found = {at: offset for at, offset in positions.items() if at[0] in EFFECTS}
        for topics in (BETWEEN, ("tasks",)):
            found |= end_offsets(log, [topic for topic in topics if any(topic == at[0] for at in positions)])
        return {name_of(at): offset for at, offset in sorted(found.items())}

    def close(self) -> None:
        """Let go."""
        self._follower.close()
        self._read_back.close()

    def _waiting(self, topic: str) -> Any:
        return (record for at, records in self._follower.waiting.items() if at[0] == topic for _, record in records)

    def _hold(self, mix: MixRevised) -> None:
        deadline_s = time.monotonic() + READ_BACK_S
        while self._revisions.version < mix.version:
            for event in self._read_back.poll(timeout_s=POLL_S):
                if self._revisions.take(event.record) and event.record.version == mix.version and event.record != mix:
                    raise LogError(
                        f"{event.position}: another instance revised the mix to version {mix.version}; starting anew "
                        "folds from there"
                    )
            if time.monotonic() > deadline_s:
                raise LogError(f"{TOPIC}: version {mix.version} was written and cannot be read within {READ_BACK_S} s")


def in_short(mix: MixRevised) -> str:
    """Return the largest weights of a mix, for a line of a service's log."""
    largest = sorted(mix.domains.items(), key=lambda one: -one[1].weight)[:6]
    return ", ".join(f"{name} {one.weight / MILLION:.1%} at {one.level:.2f}" for name, one in largest)
