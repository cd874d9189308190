"""One example of every record, used by golden files, codec and property tests."""

from typing import Any

from schemas.alerts import AlertRaised
from schemas.arrays import PackedArray
from schemas.batches import Batch, BatchRow
from schemas.commands import CommandGiven
from schemas.deadletters import DeadLetter
from schemas.decisions import Decision
from schemas.evals import EvalScored
from schemas.executions import Action, ExecutionFinished, ExecutionLimits, Outcome
from schemas.feedback import FeedbackGiven
from schemas.mixes import DomainMix, MixRevised
from schemas.policies import PolicyPublished
from schemas.rewards import RewardScored
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.seals import LogSealed
from schemas.steps import BatchRef, ObjectiveStats, StepTaken
from schemas.tasks import ExecutionSpec, SamplingParams, TaskIssued, VerifierSpec

TASK_ID = "0123456789abcdef0123456789abcdef"
SAMPLING = SamplingParams(temperature=0.5, top_p=0.75, max_tokens=24)
LIMITS = ExecutionLimits(wall_s=5.0)


def ids(*values: int) -> PackedArray:
    return PackedArray.pack(values, dtype="i4")


def task(**changes: Any) -> TaskIssued:
    fields: dict[str, Any] = {
        "task_id": TASK_ID,
        "run_id": "golden",
        "index": 7,
        "domain": "repair",
        "level": 1,
        "prompt": "call f 3 4|",
        "verifier": VerifierSpec(kind="stdout_match", expected="12", partial="lines"),
        "execution": ExecutionSpec(prelude="def f(a, b, mode=None): ...\n", limits=LIMITS),
        "max_turns": 2,
        "num_samples": 4,
        "sampling": SAMPLING,
        "seed": 11,
        "deadline_s": 60.0,
    }
    return TaskIssued(**(fields | changes))


def turn(sample: int = 0, index: int = 0, **changes: Any) -> TurnGenerated:
    fields: dict[str, Any] = {
        "task_id": TASK_ID,
        "rollout_id": f"{TASK_ID}/{sample}",
        "sample": sample,
        "turn": index,
        "domain": "repair",
        "policy": "policy",
        "context_ids": ids(5, 6, 70000),
        "token_ids": ids(8, 9, 1),
        "logprobs": PackedArray.pack([-0.5, -0.25, -2.0], dtype="f4"),
        "versions": ids(3, 3, 4),
        "text": "print(f(3,4))",
        "finish_reason": "stop",
        "sampling": SAMPLING,
        "seed": 99,
        "action": Action(code="print(f(3,4))", prelude="def f(a, b): ...\n", limits=LIMITS),
        "queued_s": 0.125,
        "generate_s": 0.25,
    }
    return TurnGenerated(**(fields | changes))


def ended(sample: int = 0, **changes: Any) -> RolloutEnded:
    fields: dict[str, Any] = {
        "task_id": TASK_ID,
        "rollout_id": f"{TASK_ID}/{sample}",
        "sample": sample,
        "domain": "repair",
        "why": "finished",
        "num_turns": 1,
        "num_tokens": 3,
    }
    return RolloutEnded(**(fields | changes))


def execution(sample: int = 0, index: int = 0, **changes: Any) -> ExecutionFinished:
    outcome = Outcome(
        status="nonzero",
        exit_code=1,
        stdout=b"\xff\x00",
        stderr=b"ValueError: mode q\n",
        stdout_bytes=2,
        stderr_bytes=19,
        wall_ms=8.0,
        cpu_ms=4.0,
        max_rss_bytes=1 << 20,
        backend="bubblewrap",
        isolation="namespaces",
        image_digest="sha256:00",
        limits_enforced=("wall_s", "cpu_s"),
    )
    fields: dict[str, Any] = {
        "task_id": TASK_ID,
        "rollout_id": f"{TASK_ID}/{sample}",
        "turn": index,
        "domain": "repair",
        "outcome": outcome,
        "queued_s": 0.5,
    }
    return ExecutionFinished(**(fields | changes))


def reward(sample: int = 0, **changes: Any) -> RewardScored:
    fields: dict[str, Any] = {
        "task_id": TASK_ID,
        "rollout_id": f"{TASK_ID}/{sample}",
        "sample": sample,
        "domain": "repair",
        "value": 0.5,
        "parts": {"stdout": 0.5},
        "verifier": "stdout_match",
        "verifier_version": 1,
        "config_digest": "sha256:01",
        "score_s": 0.001,
    }
    return RewardScored(**(fields | changes))


def batch_row(sample: int = 0) -> BatchRow:
    return BatchRow(
        rollout_id=f"{TASK_ID}/{sample}",
        sample=sample,
        token_ids=ids(5, 6, 8, 9, 1),
        loss_mask=PackedArray.pack([0, 0, 1, 1, 1], dtype="u1"),
        logprobs=PackedArray.pack([0, 0, -0.5, -0.25, -2.0], dtype="f4"),
        versions=ids(-1, -1, 3, 3, 4),
        reward=1.0,
        advantage=0.5,
        temperature=0.5,
    )


def stats() -> ObjectiveStats:
    return ObjectiveStats(
        num_tokens=6,
        num_rows=2,
        reward_mean=0.5,
        ess=0.875,
        mismatch_kl=0.0625,
        ratio_max=1.5,
        clipped_fraction=0.0,
        masked_fraction=0.0,
        staleness_mean=1.0,
        staleness_max=2,
    )


def step() -> StepTaken:
    ref = BatchRef(topic="batches", partition=3, offset=17, event_id="ab", digest="sha256:02")
    return StepTaken(
        run_id="golden",
        policy="policy",
        step=5,
        batches=(ref,),
        policy_version_in=4,
        policy_version_out=5,
        weights_digest_in="sha256:03",
        weights_digest_out="sha256:04",
        optimizer_digest_out="sha256:05",
        config="{}",
        config_digest="sha256:06",
        code_version="0.1.0",
        kernels="torch 2.15.0; AVX2; 1 thread",
        seed=0,
        loss=0.25,
        grad_norm=1.5,
        learning_rate=0.0005,
        stats=stats(),
        by_domain={"repair": stats()},
        num_padding=3,
        timings_s={"forward": 0.5},
    )


def alert() -> AlertRaised:
    return AlertRaised(
        run_id="golden",
        domain="repair",
        signal="disagreement",
        about="exact_match@1-ab",
        unit="task",
        first=96,
        last=191,
        measured=0.25,
        threshold=0.125,
        num_measured=64,
        detail="16 of 64",
        examples=(f"{TASK_ID}/0",),
        selection="--domain repair",
        command="rollog quarantine --run golden --domain repair",
    )


def mix(version: int = 3, **changes: Any) -> MixRevised:
    repair = DomainMix(
        family="code", weight=750_000, level=1.25, status="protected", ended=40, refunded=2, solve_rate=0.5,
        advantage=0.75, zero_variance=0.25, abstained=0.125, cost_s=0.5, score=1.0, num_samples=6, sampling=SAMPLING,
        truncated=0.0625,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "run_id": "golden",
        "version": version,
        "domains": {"repair": repair, "verbs": DomainMix(family="words", weight=250_000)},
        "cause": "status",
        "ends": {"rewards[0]": 640, "tasks[0]": 80},
        "config": "{}",
        "held": True,
    }
    return MixRevised(**(fields | changes))


def records() -> dict[str, Any]:
    """Return an example of every record by its name on the wire."""
    batch = Batch(
        task_id=TASK_ID,
        run_id="golden",
        domain="repair",
        rows=(batch_row(0), batch_row(1)),
        num_samples=4,
        reward_mean=0.5,
        reward_std=0.5,
        oldest_version=3,
        newest_version=4,
    )
    decision = Decision(
        task_id=TASK_ID,
        run_id="golden",
        domain="repair",
        stage="assembler",
        reason="zero_variance",
        detail="4 rewards of 0",
        num_samples=4,
        num_valid=4,
        reward_mean=0.0,
        solved=0.0,
    )
    return {
        "task_issued": task(),
        "turn_generated": turn(),
        "rollout_ended": ended(),
        "execution_finished": execution(),
        "reward_scored": reward(),
        "batch": batch,
        "decision": decision,
        "step_taken": step(),
        "policy_published": PolicyPublished(
            policy="policy", version=5, parent=4, run_id="golden", step=5, address="x", digest="sha256:04", num_bytes=9
        ),
        "eval_scored": EvalScored(
            run_id="golden",
            policy="policy",
            version=5,
            domain="repair",
            solve_rate=0.75,
            reward_mean=0.875,
            num_tasks=8,
            num_invalid=1,
        ),
        "command_given": CommandGiven(
            command="set_weight", target="repair", arguments={"weight": 0.5}, given_by="person", reason="too easy"
        ),
        "alert_raised": alert(),
        "mix_revised": mix(),
        "feedback_given": FeedbackGiven(subject=f"{TASK_ID}/0", policy="policy", policy_version=5, rating=0.5),
        "log_sealed": LogSealed(
            topic="rollouts", partition=2, first=7, end=19, num_records=12, previous="sha256:07", digest="sha256:08"
        ),
        "dead_letter": DeadLetter(
            stage="verifier",
            topic="rollouts",
            partition=2,
            offset=9,
            key=b"k",
            value=b"\xc1",
            headers=(("ce_id", b"x"), ("empty", None)),
            error="DecodeError",
            reason="rollouts[2]@9: no header ce_type",
        ),
    }
