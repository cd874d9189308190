"""The fold: what was issued and how it was rewarded, to the next mix. Pure: no clock, no lots.

What must hold: the same records in the same order give the same revisions. A record that comes twice counts once: an
open group knows its samples, and what belongs to a group that ended is passed over. Memory is what is open.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from schemas.commands import CommandGiven
from schemas.config import Settings
from schemas.curriculum import CurriculumSettings, DomainFacts
from schemas.deadletters import DeadLetter
from schemas.errors import ConfigError
from schemas.evals import EvalScored
from schemas.mix_commands import SET_MIX, Change, changes_of
from schemas.mixes import DomainMix, MixRevised, Status
from schemas.tasks import SamplingParams
from streams.curriculum import lean
from streams.curriculum.adapting import adapt, sampling_of
from streams.curriculum.domain import DomainState, GroupSeen
from streams.curriculum.guard import Guard
from streams.curriculum.opened import OpenGroup, Places
from streams.curriculum.weights import Candidate, weigh

MIN_COST_S = 1e-3


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that the fold goes by; on the log with the first revision that went by them."""

    run_id: str
    policy: str
    domains: dict[str, float]
    """Weight by domain, before scores."""
    num_samples: int
    sampling: SamplingParams
    curriculum: CurriculumSettings

    level: int = 0
    """Where each domain begins."""
    max_tokens: dict[str, int] = {}
    """Of a turn, by domain, where it needs more than the settings say."""

    @classmethod
    def of(cls, settings: Settings, facts: Mapping[str, DomainFacts]) -> "Rules":
        """Return those of a run, with what the catalogue knows of its domains where the settings say nothing."""
        own = settings.curriculum
        curriculum = msgspec.structs.replace(
            own,
            levels={name: one.levels for name, one in facts.items()} | own.levels,
            families={name: one.family for name, one in facts.items()} | own.families,
        )
        return cls(
            run_id=settings.run,
            policy=settings.policy.name,
            domains=settings.tasks.domains,
            num_samples=settings.tasks.num_samples,
            sampling=settings.sampling,
            curriculum=curriculum,
            level=settings.tasks.level,
            max_tokens={
                name: one.max_tokens for name, one in facts.items() if one.max_tokens > settings.sampling.max_tokens
            },
        )

    @property
    def config(self) -> str:
        """Return them as text."""
        return msgspec.json.encode(self, order="sorted").decode()


class MixFold:
    """One run's fold."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.version = 0
        self.states: dict[str, DomainState] = {}
        self.open: dict[str, OpenGroup] = {}
        self._guards: dict[str, Guard] = {}
        self._places = Places()
        self._commands: set[str] = set()
        self._by_hand: dict[str, dict[str, float]] = {"weight": {}, "quota": {}}
        self._freed: set[str] = set()
        """Families whose quota in the settings no longer holds."""
        self._paused: set[str] = set()
        self._statuses: dict[str, Status] = {}
        self._config = ""
        self._num_commands = 0
        """Taken since the last revision."""

    @property
    def num_ended(self) -> int:
        """Return how many groups ended."""
        return sum(state.ended for state in self.states.values())

    def state(self, domain: str, family: str = "") -> DomainState:
        """Return a domain's state."""
        found = self.states.get(domain)
        if found is None:
            rules = self.rules.curriculum
            found = DomainState(domain, family or rules.families.get(domain, domain))
            found.set_level(self.rules.level, rules)
            found.begin_revision()
            self.states[domain] = found
        return found

    def take(self, record: Any) -> None:
        """Take a record; what is of another run is passed over."""
        match record:
            case lean.Reward():
                self._take_reward(record)
            case lean.Execution() | lean.Ended():
                if record.task_id in self.open:
                    self.open[record.task_id].take(record)
            case lean.Task():
                self._take_task(record)
            case lean.End(stage="assembler") if record.reason != "held_out":
                self._close(record.task_id)
            case DeadLetter(topic="tasks", key=bytes(key)):
                self._close(key.decode(errors="replace"))
            case EvalScored():
                self._take_result(record)
            case lean.Command():
                self._take_command(record.event_id, record.record)

    def take_group(self, group: GroupSeen) -> None:
        """Take a whole group at once."""
        self.state(group.domain).take(group, self.rules.curriculum, version=self.version)

    def revise(self, ends: dict[str, int]) -> MixRevised:
        """Return the next revision, of all that was taken."""
        statuses, weights = self._weigh()
        config = self.rules.config
        mix = MixRevised(
            run_id=self.rules.run_id,
            version=self.version + 1,
            domains=self._entries(statuses, weights),
            cause=self._cause(statuses, config),
            ends=dict(sorted(ends.items())),
            config="" if config == self._config else config,
            held=self.rules.curriculum.hold and "protected" in statuses.values(),
        )
        self.version, self._statuses, self._config, self._num_commands = mix.version, statuses, config, 0
        return mix

    def _cause(self, statuses: dict[str, Status], config: str) -> str:
        if self.version == 0:
            return "start"
        if config != self._config:
            return "settings"
        if self._num_commands:
            return "command"
        return "groups" if statuses == self._statuses else "status"

    def _weigh(self) -> tuple[dict[str, Status], dict[str, int]]:
        """Return status and weight by domain; a domain that is not issued has no weight."""
        rules, total = self.rules.curriculum, self.num_ended
        statuses: dict[str, Status] = {}
        candidates = []
        for name in sorted(self.rules.domains):
            state, base = self.state(name), self._by_hand["weight"].get(name, self.rules.domains[name])
            status = state.status(is_paused=name in self._paused, is_protected=self._guard(name).is_protected)
            statuses[name] = status
            if status in ("paused", "quarantined") or base <= 0:
                continue
            candidates.append(
                Candidate(
                    domain=name,
                    family=state.family,
                    base=base,
                    score=state.score(total, rules),
                    cost=max(state.cost_s or 0.0, MIN_COST_S),
                    floor=rules.protected_floor if status == "protected" else rules.floor,
                    follows=status != "frozen",
                )
            )
        quotas = {name: q for name, q in rules.quotas.items() if name not in self._freed} | self._by_hand["quota"]
        weights = weigh(candidates, tau=rules.tau, cap=rules.cap, cost_exponent=rules.cost_exponent, quotas=quotas)
        return statuses, weights

    def _entries(self, statuses: dict[str, Status], weights: dict[str, int]) -> dict[str, DomainMix]:
        total = self.num_ended
        return {name: self._entry(name, status, weights.get(name, 0), total) for name, status in statuses.items()}

    def _entry(self, name: str, status: Status, weight: int, num_ended: int) -> DomainMix:
        state, rules = self.state(name), self.rules
        adapt(state)
        state.begin_revision()
        usual = rules.sampling
        if name in rules.max_tokens:
            usual = msgspec.structs.replace(usual, max_tokens=rules.max_tokens[name])
        num_samples, sampling = sampling_of(state, rules.num_samples, usual, rules.curriculum)
        return DomainMix(
            family=state.family,
            weight=weight,
            level=state.level,
            status=status,
            ended=state.ended,
            refunded=state.refunded,
            solve_rate=state.solve_rate or 0.0,
            advantage=state.advantage,
            zero_variance=state.zero_variance,
            abstained=state.abstained,
            cost_s=state.cost_s or 0.0,
            score=state.score(num_ended, rules.curriculum),
            num_samples=num_samples,
            sampling=sampling,
            truncated=state.truncated,
        )

    def _guard(self, domain: str) -> Guard:
        return self._guards.setdefault(domain, Guard())

    def _take_task(self, task: lean.Task) -> None:
        if task.run_id != self.rules.run_id or task.split != "train" or not self._places.add(task.index):
            return
        state = self.state(task.domain, task.family)
        state.family = task.family or state.family
        state.issued += 1
        self.open[task.task_id] = OpenGroup(task)

    def _take_reward(self, reward: lean.Reward) -> None:
        group = self.open.get(reward.task_id)
        if group is not None and group.take_reward(reward) and group.is_whole:
            self._close(reward.task_id)

    def _close(self, task_id: str) -> None:
        """End a group with the rewards that are there."""
        group = self.open.pop(task_id, None)
        if group is None:
            return
        if group.rewards:
            self.take_group(group.seen)
        else:
            self.state(group.task.domain).end_unscored()

    def _take_result(self, result: EvalScored) -> None:
        if (result.run_id, result.policy) != (self.rules.run_id, self.rules.policy):
            return
        state, guard = self.state(result.domain), self._guard(result.domain)
        doubt = guard.take(result, self.rules.curriculum, trained=state.solve_rate, level=state.level)
        state.doubt = state.doubt or doubt

    def _take_command(self, event_id: str, command: CommandGiven) -> None:
        if (command.command, command.target) != (SET_MIX, self.rules.run_id) or event_id in self._commands:
            return
        self._commands.add(event_id)
        self._num_commands += 1
        try:
            changes = changes_of(command)
        except ConfigError:
            return  # of a newer version, or written by hand: nobody can obey it
        for change in changes:
            self._change(change)

    def _change(self, change: Change) -> None:
        match change.verb:
            case "weight" if change.value is not None:
                self._by_hand["weight"][change.name] = change.value
            case "level" if change.value is not None:
                state = self.state(change.name)
                state.set_level(change.value, self.rules.curriculum)
                state.begin_revision()
            case "quota" if change.value is None:
                self._by_hand["quota"].pop(change.name, None)
                self._freed.add(change.name)
            case "quota":
                assert change.value is not None
                self._by_hand["quota"][change.name] = change.value
            case "pause":
                self._paused.add(change.name)
            case "resume":
                self._paused.discard(change.name)
                self.state(change.name).trust()
