"""Settings of a run: TOML files left to right, then flags, into frozen typed objects that are passed whole.

A key that is not here fails, so does a combination that cannot work; both name field, value and remedy.
"""

import json
import tomllib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec

from schemas.alerts import Signal
from schemas.curriculum import CurriculumSettings, check_curriculum
from schemas.errors import ConfigError
from schemas.objectives import Cispo, Objective
from schemas.scorings import ALL_DOMAINS, LIVE, VerifierChoice
from schemas.taskfiles import TaskFile
from schemas.tasks import SamplingParams


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which log, and how to reach it."""

    bootstrap: str = ""
    """`host:port,...` of a cluster; empty starts the embedded broker."""
    namespace: str = ""
    """Prefix of every topic and consumer group, so that several logs share a cluster; `demo.`, say."""
    partitions: int = 6
    """Of every task-keyed topic; fixed for a log's life, since more would re-map keys."""
    replication: int = 1
    client: dict[str, str] = {}
    """Passed to the client libraries as they are: SASL, TLS. Never printed."""
    seal_every_s: float = 300.0
    """Seconds from one sealing of what the log has gained to the next; 0 seals nothing by itself."""

    def __repr__(self) -> str:
        """Return all but the client settings' values, which may be secrets: a traceback may show this."""
        return (
            f"LogSettings(bootstrap={self.bootstrap!r}, namespace={self.namespace!r}, partitions={self.partitions}, "
            f"replication={self.replication}, client=<{', '.join(sorted(self.client))}>, "
            f"seal_every_s={self.seal_every_s})"
        )


class TaskSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is issued."""

    domains: dict[str, float] = msgspec.field(default_factory=lambda: {"verbs": 1.0, "repair": 1.0})
    """Weight by domain; a name with a `*` is all domains of such names, which share it."""
    files: dict[str, TaskFile] = {}
    """Domains of one's own by name, whose tasks are in a file or in folders; to be named in `domains`, too."""
    level: int = 0
    num_samples: int = 8
    """Rollouts of one task: the group."""
    deadline_s: float = 120.0
    wall_s: float = 5.0
    """Of one execution."""
    verifiers: dict[str, str] = {}
    """By domain (`*` is every other one): a name in `verifier.named`, or a kind, that training tasks are issued with in
    place of the domain's own. Held-out tasks keep that, so that evaluation measures the same whatever trains."""
    distinct: int = 0
    """Training tasks of a domain within which no question comes twice, as long as it has as many; 0 lets them."""


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far tasks run ahead of the learner."""

    max_staleness: int = 2
    """Steps between the version that sampled a token and the version that trains on it."""


class GeneratorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How rollouts are sampled."""

    sampler: Literal["transformers", "scripted"] = "transformers"
    num_slots: int = 256
    """Sequences decoded at once."""
    num_threads: int = 1
    logprob_dtype: Literal["f4", "f2"] = "f4"
    script: Literal["half_right", "shortcut", "novice", "fair", "expert", "mixed"] = "half_right"
    """Of the scripted sampler. `half_right` and `shortcut` answer the demo's domains, `shortcut` mostly by what runs
    whatever was asked; the others say what each task holds as right, in 20, 50 or 90 of 100 rollouts, or in as many as
    one of these three, by the rollout."""
    script_tokens: Literal["bytes", "policy"] = "bytes"
    """Of the scripted sampler: in whose tokens it writes; a policy can train on its own only."""


class ExecutorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where programs run."""

    sandbox: Literal["bubblewrap", "unsafe-subprocess", "fake"] = "bubblewrap"
    allow_unsafe: bool = False
    num_slots: int = 2
    max_in_flight: int = 256
    """Turns taken from the log and not yet answered."""
    attempts: int = 3
    """Runs before infrastructure trouble is the answer."""
    share: bool = True
    """Whether samples of a task that write the same program share one run of it; wrong for programs that draw lots."""


class JudgeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that judges, where a domain asks for one; without, that part of its verifier abstains."""

    url: str = ""
    """Of an OpenAI-compatible server, up to and with `/v1`."""
    model: str = ""
    key_from: str = ""
    """Environment variable that holds the key; empty where the server wants none. The key itself is in no setting."""
    timeout_s: float = 20.0
    """Of one request."""


class VerifierSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How rollouts are scored."""

    num_processes: int = 1
    timeout_s: float = 10.0
    """Of one scoring."""
    num_dear_processes: int = 1
    """For what takes long: geometry, mathematics, judges. They hold up nothing else."""
    dear_timeout_s: float = 60.0
    """Of one such scoring."""
    judge: JudgeSettings = JudgeSettings()
    attempts: int = 3
    grace_s: float = 15.0
    """Seconds after a task's deadline until its unfinished rollouts are scored invalid."""
    named: dict[str, VerifierChoice] = {}
    """Verifiers under names of one's own, for shadows and for `rollog rescore --verifier NAME`."""
    shadows: dict[str, tuple[str, ...]] = {}
    """By domain (`*` is every domain): names of verifiers, or kinds, that score too and are compared; none trains."""


class AssemblerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How groups become batches."""

    min_valid: int = 2
    """Valid rollouts that a group needs to train; its baseline is the mean over the valid ones."""
    grace_s: float = 30.0
    """Seconds after a task's deadline until its group is closed with what is there."""


class LearnerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How weights change."""

    steps: int = 0
    """Step to stop at; 0 runs until told to stop."""
    groups_per_step: int = 32
    objective: Objective = Cispo()
    learning_rate: float = 5e-4
    warmup_steps: int = 0
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    pack_tokens: int = 256
    """Length of a packed row."""
    rows_per_pass: int = 32
    """Packed rows in one forward pass."""
    num_threads: int = 1
    checkpoint_every: int = 1
    """Steps from one checkpoint, and so one published version, to the next."""
    keep_last: int = 8
    """Checkpoints kept besides the first, the last and every `keep_every`th."""
    keep_every: int = 20
    scoring: str = LIVE
    """Whose batches are trained on: `live` are those that tasks ended with, under whichever scoring they were issued;
    any other id means that scoring's alone, those that `rollog rebatch` made of history too."""
    dedupe_window: int = 65_536
    """Batch ids remembered to drop repeats."""
    offline: bool = False
    """Whether a fork trains on what was recorded upstream: in that order, whatever its age, until it is used up.
    Without, what is left of it is passed over, with a decision."""


class EvaluationSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and on what policies are evaluated."""

    every: int = 20
    """Versions from one evaluation to the next; 0 evaluates none. The first and the last are always evaluated."""
    num_tasks: int = 128
    """Held-out tasks per domain, one greedy sample each."""


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is a sign of a reward that is earned by something else than what was meant; above 1 is never."""

    enabled: bool = True
    window: int = 96
    """Training tasks, of all domains, that are looked at together, by index: 0 to 95, 96 to 191 and so on."""
    min_measured: int = 32
    """Rollouts, or rows, of a domain that a window needs to tell anything."""
    min_questions: int = 8
    """Different prompts with rewarded answers that `repeated` needs."""
    disagreement: float = 0.2
    """Share of the rollouts with both rewards that a shadow gives at least 0.5 less than the verifier that trains."""
    repeated: float = 0.3
    """Share of the different prompts with rewarded answers to which the most frequent rewarded answer was given."""
    no_answer: float = 0.5
    """Share of the rollouts that ended without anything to run, where something can be."""
    invalid: float = 0.25
    """Share of the rewards that have no value."""
    divergence: float = 0.2
    """How far the mean reward of what trained lies above the held-out one, while it rose and that did not."""
    rise: float = 0.1
    flat: float = 0.02
    """From one evaluated version to the next: training reward rose by at least, held-out by at most."""
    quarantine: tuple[Signal, ...] = ()
    """Signals that give the quarantine command by themselves."""


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is trained."""

    name: str = "policy"
    base: str = "demo/policy"
    """Folder of Hugging Face files; relative to the working directory."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of one run."""

    run: str = "default"
    """Name; also names its folder under `ROLLOG_HOME`."""
    seed: int = 0
    log: LogSettings = LogSettings()
    policy: PolicySettings = PolicySettings()
    tasks: TaskSettings = TaskSettings()
    sampling: SamplingParams = SamplingParams()
    admission: AdmissionSettings = AdmissionSettings()
    generator: GeneratorSettings = GeneratorSettings()
    executor: ExecutorSettings = ExecutorSettings()
    verifier: VerifierSettings = VerifierSettings()
    assembler: AssemblerSettings = AssemblerSettings()
    learner: LearnerSettings = LearnerSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    alerts: AlertSettings = AlertSettings()
    curriculum: CurriculumSettings = CurriculumSettings()


Tree = dict[str, Any]


def merge(base: Tree, over: Tree) -> Tree:
    """Return `base` with `over` laid on it, table by table."""
    merged = dict(base)
    for key, value in over.items():
        both = (
            isinstance(value, dict)
            and isinstance(merged.get(key), dict)
            and key not in ("domains", "files", "objective")
        )
        merged[key] = merge(merged[key], value) if both else value
    return merged


def lay_flag(tree: Tree, flag: str) -> Tree:
    """Return `tree` with `learner.steps=80` laid on it; the value is TOML, or text where it is no TOML.

    What stands beside the field stays. Raises ConfigError.
    """
    path, equals, text = flag.partition("=")
    if not equals or not path:
        raise ConfigError(f"--set {flag!r}: wanted FIELD=VALUE, learner.steps=80, say")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    return lay_value(tree, path.split("."), value)


def lay_value(tree: Tree, path: Sequence[str], value: Any) -> Tree:
    """Return `tree` with one value laid on it at `path`."""
    name, *rest = path
    if not rest:
        return merge(tree, {name: value})
    within = tree.get(name)
    return {**tree, name: lay_value(within if isinstance(within, dict) else {}, rest, value)}


def load_settings(files: Iterable[Path] = (), flags: Sequence[str] = ()) -> Settings:
    """Return the settings that the files, left to right, and then the flags say. Raises ConfigError.

    A file is TOML, or JSON where its name ends so: a run's saved settings.
    """
    tree: Tree = {}
    for file in files:
        try:
            text = file.read_text()
            tree = merge(tree, json.loads(text) if file.suffix == ".json" else tomllib.loads(text))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{file}: {error}") from error
    for flag in flags:
        tree = lay_flag(tree, flag)
    try:
        settings = msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"settings: {error}; `rollog config` shows every field and its default") from error
    check(settings)
    return settings


def check(settings: Settings) -> None:
    """Raise ConfigError where single values or their combination cannot work."""
    positive = {
        "log.partitions": settings.log.partitions,
        "tasks.num_samples": settings.tasks.num_samples,
        "tasks.deadline_s": settings.tasks.deadline_s,
        "sampling.max_tokens": settings.sampling.max_tokens,
        "generator.num_slots": settings.generator.num_slots,
        "executor.num_slots": settings.executor.num_slots,
        "executor.attempts": settings.executor.attempts,
        "verifier.num_processes": settings.verifier.num_processes,
        "verifier.num_dear_processes": settings.verifier.num_dear_processes,
        "verifier.timeout_s": settings.verifier.timeout_s,
        "verifier.dear_timeout_s": settings.verifier.dear_timeout_s,
        "verifier.judge.timeout_s": settings.verifier.judge.timeout_s,
        "verifier.attempts": settings.verifier.attempts,
        "learner.groups_per_step": settings.learner.groups_per_step,
        "learner.checkpoint_every": settings.learner.checkpoint_every,
        "learner.keep_last": settings.learner.keep_last,
        "alerts.window": settings.alerts.window,
    }
    for field, value in positive.items():
        if value <= 0:
            raise ConfigError(f"{field} = {value}: wanted more than 0")
    if settings.log.seal_every_s < 0:
        raise ConfigError(f"log.seal_every_s = {settings.log.seal_every_s}: wanted seconds, or 0 for never")
    if not settings.tasks.domains or any(weight < 0 for weight in settings.tasks.domains.values()):
        raise ConfigError(f"tasks.domains = {settings.tasks.domains}: wanted at least one domain, no weight below 0")
    for domain in settings.tasks.verifiers:
        if domain != ALL_DOMAINS and not any(fnmatchcase(domain, name) for name in settings.tasks.domains):
            known = ", ".join(settings.tasks.domains)
            raise ConfigError(
                f"tasks.verifiers.{domain} = {settings.tasks.verifiers[domain]!r}: no task of such a domain is issued; "
                f"wanted one of tasks.domains ({known}), or {ALL_DOMAINS!r} for every other one"
            )
    check_judge(settings.verifier)
    check_curriculum(settings.curriculum, settings.tasks.domains)
    check_together(settings)


def check_judge(settings: VerifierSettings) -> None:
    """Raise ConfigError where a judge is half named, or cannot answer in time."""
    judge = settings.judge
    if bool(judge.url) != bool(judge.model):
        raise ConfigError(f"verifier.judge: got url {judge.url!r} and model {judge.model!r}; wanted both, or neither")
    if judge.url and not judge.url.startswith(("http://", "https://")):
        raise ConfigError(f"verifier.judge.url = {judge.url!r}: wanted http://HOST:PORT/v1, or https")
    if judge.url and settings.dear_timeout_s <= 2 * judge.timeout_s:
        raise ConfigError(
            f"verifier.dear_timeout_s = {settings.dear_timeout_s} with verifier.judge.timeout_s = {judge.timeout_s}: a "
            f"comparison asks twice; raise dear_timeout_s above {2 * judge.timeout_s}"
        )


def check_together(settings: Settings) -> None:
    """Raise ConfigError for values that are fine alone and cannot work together."""
    min_valid, num_samples = settings.assembler.min_valid, settings.tasks.num_samples
    if not 2 <= min_valid <= num_samples:
        raise ConfigError(
            f"assembler.min_valid = {min_valid} with tasks.num_samples = {num_samples}: a baseline needs at least 2 "
            "valid samples, and no more than there are; set min_valid between 2 and num_samples"
        )
    if settings.assembler.grace_s <= settings.verifier.grace_s:
        raise ConfigError(
            f"assembler.grace_s = {settings.assembler.grace_s} with verifier.grace_s = {settings.verifier.grace_s}: "
            "the assembler would close groups before the verifier gives up; make assembler.grace_s the larger"
        )
    if settings.executor.sandbox == "unsafe-subprocess" and not settings.executor.allow_unsafe:
        raise ConfigError(
            'executor.sandbox = "unsafe-subprocess": it isolates nothing; executor.allow_unsafe = true accepts that'
        )
    if settings.admission.max_staleness < settings.learner.checkpoint_every - 1:
        raise ConfigError(
            f"admission.max_staleness = {settings.admission.max_staleness} with learner.checkpoint_every = "
            f"{settings.learner.checkpoint_every}: samplers see a new version only that often; raise max_staleness "
            f"to at least {settings.learner.checkpoint_every - 1}"
        )


def resolved(settings: Settings) -> str:
    """Return the settings as JSON to keep with the run; client settings, which may be secrets, by name only."""
    tree = msgspec.to_builtins(settings)
    tree["log"]["client"] = dict.fromkeys(settings.log.client, "(not shown)")
    return json.dumps(tree, indent=2)
