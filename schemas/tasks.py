"""A task: one problem instance, whole, so that everything after it needs nothing but the log."""

from typing import Literal

import msgspec

from schemas.executions import Case, ExecutionLimits
from schemas.limits import MAX_RECORD_BYTES
from schemas.parts import Part
from schemas.tools import Tool

Split = Literal["train", "held_out"]

MOST = {"num_samples": 4096, "max_turns": 1024, "sampling.max_tokens": 1 << 20}
MOST_DEADLINE_S = 30 * 86_400.0
MOST_TEMPERATURE = 100.0
MOST_TREE_BYTES = MAX_RECORD_BYTES // 4


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are drawn."""

    temperature: float = 1.0
    """0 is greedy: then the reported log-probabilities are those of temperature 1."""
    top_p: float = 1.0
    max_tokens: int = 32
    """Tokens of one turn, the end token included."""


class VerifierSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What makes an answer right, as data.

    Example: `VerifierSpec(kind="stdout_match", expected="7")`.
    """

    kind: str
    """Name in the verifier registry: `stdout_match`, `exact_match`, `exit_status`, `parts`."""
    expected: str = ""
    partial: Literal["none", "lines", "prefix"] = "none"
    """Credit for part of an answer: share of equal lines, share of an equal beginning, or all or nothing."""
    parts: tuple[Part, ...] = ()
    """What kind `parts` looks at, in the order in which it is looked at."""


class ExecutionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn of this task becomes an `Action`, and its outcome the next turn's context."""

    kind: Literal["python", "command", "tools"] = "python"
    """What a turn's text is: a program, a line for `sh -c`, or prose that may hold a call of one of `tools`."""
    prelude: str = ""
    """Python laid before what the policy wrote; with `tools`, where those that are functions are defined."""
    limits: ExecutionLimits = ExecutionLimits()
    observation: str = "\n{stderr_last_line}|"
    """Text appended after a run that the rollout goes on from; may name `stdout`, `stderr`, `stderr_last_line` and
    `status`."""
    extract: Literal["whole", "fenced"] = "whole"
    """The program: the whole text, or its last block between three backquotes, where it has one."""
    cases: tuple[Case, ...] = ()
    """Inputs that each program is run with, each on its own; none is one run without input. With kind `tools`, what is
    run once the rollout is over, each in a copy of what it left: its `epilogue` is a line for `sh -c`."""
    files: dict[str, bytes] = {}
    """Relative path to content, in the working directory at the start."""
    setup: str = ""
    """Line for `sh -c` that makes the rest of the working directory at the start; what it prints is not shown."""
    tools: tuple[Tool, ...] = ()
    """With kind `tools`: what a turn may call, one call a turn. The working directory goes from one to the next."""
    keep_tree_bytes: int = 0
    """Bytes up to which the working directory is kept in each execution, for the next turn and the verifier."""
    ends_on: Literal["ok", "answer"] = "ok"
    """What ends a rollout before `max_turns`: a run without an error, or a turn that runs nothing."""


class TaskIssued(msgspec.Struct, frozen=True, kw_only=True):
    """A task was given out."""

    task_id: str
    run_id: str
    index: int
    """Place in its run's sequence of tasks of this split; that, domain, level and `draw` decide the whole content."""
    domain: str
    level: int = 0
    """Difficulty, from 0."""
    split: Split = "train"
    """`held_out` tasks are scored and never trained on."""
    prompt: str
    verifier: VerifierSpec
    execution: ExecutionSpec | None = None
    """None: a turn is an answer and nothing runs."""
    max_turns: int = 1
    num_samples: int = 8
    sampling: SamplingParams = SamplingParams()
    seed: int = 0
    """Every draw of every sample and turn derives from it."""
    policy: str = "policy"
    policy_version: int | None = None
    """The exact version to sample with; None is whichever is newest."""
    deadline_s: float = 300.0
    """Seconds from issue to the end of its rollouts; each later stage adds a grace of its own."""
    scoring_id: str = "live"
    """Whose rewards it ends by and trains on; `verifier` is that scoring's spec for it."""
    own_verifier: VerifierSpec | None = None
    """What the domain itself asks for, where `verifier` is something else: any other verifier starts from that."""
    family: str = ""
    """Of the domain."""
    gold: tuple[str, ...] = ()
    """What a right rollout may say, turn by turn; samplers never see it."""
    mix_version: int = 0
    """Which mix of domains chose domain and level; 0 where the settings alone did."""
    draw: int = 0
    """How many draws before this one asked what had been asked shortly before."""

    @property
    def own_spec(self) -> VerifierSpec:
        """Return what the task's domain asks for, whatever it was issued under."""
        return self.own_verifier or self.verifier

    def __post_init__(self) -> None:
        """Refuse what no stage could ever finish."""
        if self.execution is not None:
            check_execution(self.execution)
        counts = {
            "num_samples": self.num_samples,
            "max_turns": self.max_turns,
            "sampling.max_tokens": self.sampling.max_tokens,
        }
        for name, value in counts.items():
            if not 1 <= value <= MOST[name]:
                raise ValueError(f"{name} {value}: wanted 1 to {MOST[name]}")
        if not 0 < self.deadline_s <= MOST_DEADLINE_S:
            raise ValueError(f"deadline_s {self.deadline_s}: wanted more than 0 and at most {MOST_DEADLINE_S}")
        if not (0 <= self.sampling.temperature <= MOST_TEMPERATURE and 0 < self.sampling.top_p <= 1):
            raise ValueError(
                f"temperature {self.sampling.temperature}, top_p {self.sampling.top_p}: "
                f"wanted 0 to {MOST_TEMPERATURE}, and more than 0 and at most 1"
            )


def check_execution(execution: ExecutionSpec) -> None:
    """Raise ValueError for what no executor could run."""
    if not 0 <= execution.keep_tree_bytes <= MOST_TREE_BYTES:
        raise ValueError(f"execution.keep_tree_bytes {execution.keep_tree_bytes}: wanted 0 to {MOST_TREE_BYTES}")
    if execution.keep_tree_bytes and execution.cases and execution.kind != "tools":
        raise ValueError(
            "execution.cases with keep_tree_bytes: each case has a working directory of its own; choose one"
        )
    if (execution.kind == "tools") != bool(execution.tools):
        raise ValueError(f"execution.kind {execution.kind!r} with {len(execution.tools)} tools; wanted both or neither")
    for tool in execution.tools:
        properties = tool.parameters.get("properties", {})
        if tool.runs != "call" and (
            len(properties) != 1 or list(properties) != list(tool.parameters.get("required", ()))
        ):
            raise ValueError(
                f"tool {tool.name!r} runs its argument as a {tool.runs}; wanted exactly one, required; got {properties}"
            )
