"""A policy of a few thousand parameters, batches for it, and all that a learner is given."""

from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from consumers.runtime import Runtime
from consumers.telemetry import Telemetry
from schemas.arrays import PackedArray
from schemas.batches import Batch, BatchRow
from schemas.codec import new_event
from schemas.config import AdmissionSettings, LearnerSettings, PolicySettings, Settings
from schemas.events import Event
from schemas.ids import derive_id

VOCABULARY = 23


def make_policy(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    torch.manual_seed(seed)
    config: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
        "initializer_range": 0.3,
    }
    LlamaForCausalLM(LlamaConfig(**(config | changes))).save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    return folder


def make_row(rng: np.random.Generator, name: str, *, reward: float, mean: float, version: int = 0) -> BatchRow:
    num_context, num_sampled = int(rng.integers(1, 6)), int(rng.integers(1, 8))
    mask = np.array([0] * num_context + [1] * num_sampled)
    return BatchRow(
        rollout_id=name,
        sample=int(name.rpartition("/")[2]),
        token_ids=PackedArray.pack(rng.integers(0, VOCABULARY, len(mask)), dtype="i4"),
        loss_mask=PackedArray.pack(mask, dtype="u1"),
        logprobs=PackedArray.pack(np.where(mask, -3.0 - rng.random(len(mask)), 0.0), dtype="f4"),
        versions=PackedArray.pack(np.where(mask, version, -1), dtype="i4"),
        reward=reward,
        advantage=reward - mean,
    )


def make_batch(index: int, *, run_id: str = "test", num_rows: int = 3, version: int = 0, **changes: Any) -> Batch:
    rng = np.random.default_rng(index)
    task_id = derive_id(run_id, "task_issued", index)
    rewards = rng.integers(0, 2, num_rows).astype(float)
    rewards[0], rewards[1] = 0.0, 1.0
    mean = float(rewards.mean())
    rows = [
        make_row(rng, f"{task_id}/{i}", reward=float(reward), mean=mean, version=version)
        for i, reward in enumerate(rewards)
    ]
    fields: dict[str, Any] = {
        "task_id": task_id,
        "run_id": run_id,
        "domain": ("verbs", "repair")[index % 2],
        "rows": tuple(rows),
        "num_samples": num_rows,
        "reward_mean": mean,
        "reward_std": float(rewards.std()),
        "oldest_version": version,
        "newest_version": version,
    }
    return Batch(**(fields | changes))


def batch_event(batch: Batch) -> Event[Batch]:
    event_id = derive_id(batch.task_id, "batch", 0, batch.scoring_id)
    return new_event(batch, id=event_id, key=batch.task_id, source="rollog/test")


class StopWhenIdle(Flag):
    """Tells a learner that waits for the word to stop, stop; one that waits for batches waits on."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return True


def make_runtime(home: Path, base: Path, *, max_staleness: int = 100, **learner: Any) -> Runtime:
    fields: dict[str, Any] = {"steps": 4, "groups_per_step": 2, "pack_tokens": 24, "rows_per_pass": 3}
    settings = Settings(
        run="test",
        policy=PolicySettings(base=str(base)),
        admission=AdmissionSettings(max_staleness=max_staleness),
        learner=LearnerSettings(**(fields | learner)),
    )
    return Runtime(
        settings=settings, home=home, instance="learner-0", telemetry=Telemetry("learner"), stop=StopWhenIdle()
    )
