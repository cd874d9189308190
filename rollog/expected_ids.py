"""The id that each record has to have, as far as the record itself shows what it was derived from.

The rules are those of the places that derive ids; they are called, not written down again.
"""

from typing import Any

from consumers.sealing import seal_id
from learner.publishing import policy_id, step_id
from producers.admission import batch_id
from producers.turns import end_id, turn_id
from schemas.alerts import AlertRaised
from schemas.batches import Batch
from schemas.deadletters import DeadLetter
from schemas.decisions import Decision
from schemas.evals import EvalScored
from schemas.events import Event, Position
from schemas.executions import ExecutionFinished
from schemas.ids import derive_id, task_id
from schemas.mixes import MixRevised, mix_id
from schemas.policies import PolicyPublished
from schemas.rewards import RewardScored
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.seals import LogSealed
from schemas.steps import StepTaken
from schemas.tasks import TaskIssued
from streams.alerts import alert_id
from streams.assembler import end_id as group_end_id
from streams.evaluator import eval_id
from streams.executor import execution_id
from streams.scoring import reward_id


def expected_id(event: Event[Any]) -> str | None:
    """Return the id that follows from the record; None where it does not show what the id was derived from."""
    record = event.record
    match record:
        case TaskIssued():
            return expected_task_id(record)
        case TurnGenerated():
            return turn_id(record.rollout_id, record.turn)
        case RolloutEnded():
            return end_id(record.rollout_id)
        case ExecutionFinished():
            return execution_id(turn_id(record.rollout_id, record.turn))
        case RewardScored():
            return reward_id(record)
        case Batch():
            return batch_id(record.task_id, record.scoring_id, record.run_id if record.is_recorded else "")
        case Decision():
            return expected_decision_id(record)
        case _:
            return expected_id_of_policy(record)


def expected_id_of_policy(record: Any) -> str | None:
    """Return the id of what is not about a task."""
    match record:
        case StepTaken():
            return step_id(record.run_id, record.step)
        case PolicyPublished():
            return policy_id(record.run_id, record.policy, record.version)
        case EvalScored():
            return eval_id(record)
        case AlertRaised():
            return alert_id(record)
        case MixRevised():
            return mix_id(record.run_id, record.version)
        case LogSealed():
            return seal_id(record)
        case DeadLetter():
            where = Position(record.topic, record.partition, record.offset)
            return derive_id(str(where), "dead_letter", 0, record.stage)
    return None


def expected_task_id(task: TaskIssued) -> str:
    """Return a task's id; that of a held-out one also tells the policy version that it is to evaluate."""
    generation = f"{task.policy}/{task.policy_version}" if task.split == "held_out" else ""
    return task_id(task.run_id, task.split, task.index, generation)


def expected_decision_id(decision: Decision) -> str:
    """Return a decision's id: of the group where the assembler decided, of the batch where the learner did."""
    if decision.stage == "learner" and decision.batch_id is not None:
        return derive_id(decision.batch_id, "decision", 0)
    return group_end_id(decision)
