"""The loop without a log: one process, the same parts, and every phase waits for all of the phase before.

Of a batch of tasks all turns are generated, then all that they ask for is executed, and so on until the last rollout
has ended; then all are scored, then the learner takes its step. Sampler, slots, sandbox, scoring lanes, assembly and
learner are those that the services have, with the same settings and the same pace.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.generating import take
from bench.paced import PacedSampler, paced
from consumers.feed import BatchEvent
from consumers.telemetry import Telemetry
from learner.checkpoint import prune
from learner.manifest import describe_policy
from learner.model import set_determinism
from learner.training import Training
from producers.generation import Generator
from producers.generator import TOKENS_PER_ROUND
from producers.publisher import OnDelivered
from producers.tasks import train_task
from schemas.batches import Batch
from schemas.codec import new_event
from schemas.config import Settings
from schemas.errors import RollogError
from schemas.events import Event
from schemas.executions import Action, ExecutionFinished
from schemas.ids import derive_id
from schemas.rollouts import TurnGenerated
from schemas.trajectory import Group
from streams.assembly import assemble
from streams.lanes import Lanes
from streams.running import Ran, carry_out
from streams.sandbox import Sandbox, open_sandbox
from streams.scoring import Finding, job_of, reward_id, reward_of, without_worth
from streams.sharing import Key, key_of


class Memory:
    """A publisher that keeps what it is given, and for which everything is durable at once."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.turns: list[TurnGenerated] = []
        """That ask for a run, and were not yet taken."""
        self.num_tokens = 0

    def event(self, record: Any, **fields: Any) -> Event[Any]:
        """Return an event that is yet to be written."""
        return new_event(record, source="bench", **fields)

    def publish(self, event: Event[Any], on_delivered: OnDelivered) -> None:
        """Keep it, and say that it is written."""
        self.groups.setdefault(event.key, Group()).add(event)
        if isinstance(event.record, TurnGenerated):
            self.num_tokens += len(event.record.token_ids)
            self.turns += [event.record] * (event.record.action is not None)
        on_delivered(None)


class Synchronous:
    """The parts, and what they have come to."""

    def __init__(self, settings: Settings, *, home: Path, sandbox: Sandbox) -> None:
        self.settings, self.sandbox, self.checkpoints = settings, sandbox, home / "checkpoints"
        self.memory = Memory()
        publisher: Any = self.memory
        self.generator = Generator(
            settings,
            sampler=PacedSampler(settings.generator),
            publisher=publisher,
            telemetry=Telemetry("generator"),
        )
        set_determinism(settings.learner.num_threads)
        self.training = Training.from_base(Path(settings.policy.base), seed=settings.seed)
        self.seconds: dict[str, float] = dict.fromkeys(("generate", "execute", "verify", "step"), 0.0)
        self.num_trained = self.num_tasks = 0
        self._advance = paced(Training.advance)
        self._errors: list[BaseException] = []

    @property
    def total_s(self) -> float:
        """Return the seconds of all phases together."""
        return sum(self.seconds.values())

    async def run(self, *, num_batches: int, groups_per_batch: int) -> None:
        """Take so many batches through all phases, and before them a task that is not counted: what starts, starts."""
        lanes = Lanes(self.settings.verifier, on_error=self._errors.append)
        try:
            with ThreadPoolExecutor(self.settings.executor.num_slots) as threads:
                for number in range(num_batches + 1):
                    if number == 1:
                        self.num_trained = self.num_tasks = self.memory.num_tokens = 0
                        self.seconds = dict.fromkeys(self.seconds, 0.0)
                    self.publish_policy()
                    first = 1 + (number - 1) * groups_per_batch
                    indices = range(first, first + groups_per_batch) if number else range(1)
                    self.roll_out(indices, threads)
                    await self.timed("verify", self.score(lanes))
                    self.step()
        finally:
            await lanes.close()

    def publish_policy(self) -> None:
        """Make a checkpoint, and have the sampler go on with it, where a step was taken."""
        if self.generator.sampler.version == self.training.step:
            return
        start_s = time.perf_counter()
        run = self.settings.run
        folder = self.training.save(self.checkpoints, run_id=run, policy=self.settings.policy.name, seed=0, pending=[])
        prune(self.checkpoints, keep_last=self.settings.learner.keep_last, keep_every=self.settings.learner.keep_every)
        self.generator.policies.take(describe_policy(self.training, folder, self.settings))
        self.generator.load_newest()
        self.seconds["step"] += time.perf_counter() - start_s

    def roll_out(self, indices: range, threads: ThreadPoolExecutor) -> None:
        """Generate and execute, in turns, until all rollouts of these tasks have ended."""
        self.memory.groups.clear()
        for index in indices:
            task = train_task(self.settings, index)
            group = self.memory.groups[task.task_id] = Group()
            group.add(new_event(task, id=task.task_id, key=task.task_id, source="bench"))
            take(self.generator, task, task.task_id, "tasks", index)
        self.num_tasks += len(indices)
        ran: dict[Key, Ran] = {}
        while True:
            start_s = time.perf_counter()
            self.generator.work(TOKENS_PER_ROUND)
            while self.generator.has_work:
                self.generator.work(TOKENS_PER_ROUND)
            generated_s = time.perf_counter()
            self.seconds["generate"] += generated_s - start_s
            if not self.memory.turns:
                return
            self.execute(threads, ran)
            self.seconds["execute"] += time.perf_counter() - generated_s

    def execute(self, threads: ThreadPoolExecutor, ran: dict[Key, Ran]) -> None:
        """Run what the turns ask for, the same program of a task once, and say what came of it."""
        turns, self.memory.turns = self.memory.turns, []
        actions: dict[Key, Action] = {}
        for turn in turns:
            assert turn.action is not None
            if (key := key_of(turn.task_id, turn.action)) not in ran:
                actions[key] = turn.action
        ran |= zip(actions, threads.map(self._carry_out, actions.values()), strict=True)
        for turn in turns:
            assert turn.action is not None
            came = ran[key_of(turn.task_id, turn.action)]
            execution = ExecutionFinished(
                task_id=turn.task_id,
                rollout_id=turn.rollout_id,
                turn=turn.turn,
                domain=turn.domain,
                outcome=came.outcome,
                cases=came.cases,
            )
            event_id = derive_id(turn.rollout_id, "execution_finished", turn.turn)
            self.memory.groups[turn.task_id].add(new_event(execution, id=event_id, key=turn.task_id, source="bench"))
            take(self.generator, execution, event_id, "executions", 0)

    def _carry_out(self, action: Action) -> Ran:
        return carry_out(self.sandbox, action, attempts=self.settings.executor.attempts)

    async def timed(self, phase: str, work: Any) -> None:
        """Wait for a phase, and count its seconds."""
        start_s = time.perf_counter()
        await work
        self.seconds[phase] += time.perf_counter() - start_s

    async def score(self, lanes: Lanes) -> None:
        """Score every rollout."""
        loop = asyncio.get_running_loop()
        waiting = []
        for group in self.memory.groups.values():
            for sample in range(self.settings.tasks.num_samples):
                found: asyncio.Future[Finding] = loop.create_future()
                trajectory = group.sample(sample)
                assert group.task is not None
                finding = without_worth(trajectory)
                if finding is None:
                    lanes.submit(job_of(group.task.verifier, trajectory), found.set_result)
                else:
                    found.set_result(finding)
                waiting.append((group, sample, found))
        for group, sample, found in waiting:
            assert group.task is not None
            reward = reward_of(group.task, sample, await found)
            group.add(new_event(reward, id=reward_id(reward), key=group.task.task_id, source="bench"))
        if self._errors:
            raise RollogError(f"scoring: {self._errors[0]!r}")

    def step(self) -> None:
        """Train on the groups that teach something."""
        start_s = time.perf_counter()
        batches: list[BatchEvent] = []
        for task_id, group in self.memory.groups.items():
            end = assemble(group, settings=self.settings.assembler, now_s=time.time())
            if isinstance(end, Batch):
                batches.append(new_event(end, id=derive_id(task_id, "batch", 0), key=task_id, source="bench"))
        if batches:
            self._advance(self.training, batches, self.settings.learner, seed=self.settings.seed)
        self.num_trained += len(batches)
        self.seconds["step"] += time.perf_counter() - start_s


def run_synchronously(settings: Settings, *, home: Path, num_batches: int) -> Synchronous:
    """Return the loop after so many batches, each as large as the learner's step."""
    executor = settings.executor
    with open_sandbox(executor.sandbox, num_slots=executor.num_slots, home=home) as sandbox:
        loop = Synchronous(settings, home=home, sandbox=sandbox)
        asyncio.run(loop.run(num_batches=num_batches, groups_per_batch=settings.learner.groups_per_step))
    return loop
