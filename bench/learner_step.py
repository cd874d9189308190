"""How much of the learner's time is the forward and backward pass that no learner can do without.

`measure()` alternates, in one process, between whole steps (packing, passes, objective, update, digests, checkpoint
synced to disk) and bare forward and backward passes over the very same packed tokens.
"""

import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from learner.checkpoint import prune
from learner.model import set_determinism, token_logprobs
from learner.packing import pack
from learner.step import read_batches
from learner.training import Training
from schemas.arrays import PackedArray
from schemas.batches import Batch, BatchRow
from schemas.codec import new_event
from schemas.config import LearnerSettings
from schemas.events import Event
from schemas.ids import derive_id

VOCABULARY = 64
NUM_STEPS = 12
BAR = 0.80


def make_base(folder: Path) -> Path:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def make_batches(settings: LearnerSettings, *, num_samples: int = 8) -> list[Event[Batch]]:
    """Make groups of the demo's size: a context of 5 to 40 tokens and an answer of 8 to 20."""
    rng = np.random.default_rng(0)
    events = []
    for index in range(settings.groups_per_step):
        task_id, rows = derive_id("bench", "task_issued", index), []
        for sample in range(num_samples):
            mask = np.repeat([0, 1], [rng.integers(5, 41), rng.integers(8, 21)])
            rows.append(
                BatchRow(
                    rollout_id=f"{task_id}/{sample}",
                    sample=sample,
                    token_ids=PackedArray.pack(rng.integers(0, VOCABULARY, len(mask)), dtype="i4"),
                    loss_mask=PackedArray.pack(mask, dtype="u1"),
                    logprobs=PackedArray.pack(np.where(mask, -4.0, 0.0), dtype="f4"),
                    versions=PackedArray.pack(np.where(mask, 0, -1), dtype="i4"),
                    reward=float(sample % 2),
                    advantage=sample % 2 - 0.5,
                )
            )
        batch = Batch(
            task_id=task_id,
            run_id="bench",
            domain=("verbs", "repair")[index % 2],
            rows=tuple(rows),
            num_samples=num_samples,
            reward_mean=0.5,
            reward_std=0.5,
            oldest_version=0,
            newest_version=0,
        )
        events.append(new_event(batch, id=derive_id(task_id, "batch", 0), key=task_id, source="bench"))
    return events


def time_bare(training: Training, batches: list[Event[Batch]], settings: LearnerSettings) -> float:
    rollouts = read_batches([event.record for event in batches]).rollouts
    packed = pack(rollouts, pack_tokens=settings.pack_tokens, rows_per_pass=settings.rows_per_pass)
    training.model.zero_grad(set_to_none=True)
    started_s = time.perf_counter()
    for one in packed:
        token_logprobs(training.model, one).mean().backward()
    return time.perf_counter() - started_s


def time_step(training: Training, batches: list[Event[Batch]], settings: LearnerSettings, root: Path) -> float:
    started_s = time.perf_counter()
    training.advance(batches, settings, seed=0)
    training.save(root, run_id="bench", policy="policy", seed=0, pending=[])
    prune(root, keep_last=settings.keep_last, keep_every=settings.keep_every)
    return time.perf_counter() - started_s


def measure() -> list[dict[str, object]]:
    """Return the figures, each with `name`, `value`, `unit`, `bar` and `holds`."""
    settings = LearnerSettings()
    set_determinism(settings.num_threads)
    with tempfile.TemporaryDirectory() as folder:
        training = Training.from_base(make_base(Path(folder) / "base"), seed=0)
        batches = make_batches(settings)
        training.seen = tuple(derive_id("bench", "batch", index) for index in range(settings.dedupe_window))
        bare_s, step_s = [], []
        for _ in range(NUM_STEPS):
            bare_s.append(time_bare(training, batches, settings))
            step_s.append(time_step(training, batches, settings, Path(folder) / "checkpoints"))
    num_tokens = sum(len(row.token_ids) for event in batches for row in event.record.rows)
    # The first round warms both up; neighbours in time share whatever else the machine does.
    ratio = statistics.median(bare / step for bare, step in zip(bare_s[1:], step_s[1:], strict=True))
    tokens_per_s = num_tokens / statistics.median(step_s[1:])
    return [
        {"name": "learner_step_of_bare", "value": round(ratio, 3), "unit": "ratio", "bar": BAR, "holds": ratio >= BAR},
        {"name": "learner_tokens", "value": round(tokens_per_s), "unit": "1/s", "bar": None, "holds": True},
    ]


if __name__ == "__main__":
    for figure in measure():
        print(json.dumps(figure))
