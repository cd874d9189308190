"""Domains of every family go round the loop: real broker, services, sandbox and learner; a script is the policy."""

import asyncio
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from consumers.bounds import read_state
from consumers.reader import Reader
from producers.samplers.spelling import ByteSpelling
from rollog.up import Up, first_of, running
from rollog.verify_log import verify
from schemas.config import Settings, load_settings
from schemas.rewards import RewardScored
from schemas.steps import StepTaken
from schemas.tasks import TaskIssued

DOMAINS = (
    "agent_shop", "code_function", "data_describe", "documents_invoice_json", "finance_filings", "solid_primitive",
    "terminal_logs",
)  # fmt: skip
NUM_STEPS = 2
DEADLINE_S = 240.0


def write_policy(folder: Path) -> None:
    """Write a policy of bytes without a layer: it is not to be good, but to be trained on long rollouts."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=264, hidden_size=16, intermediate_size=16, num_hidden_layers=0, num_attention_heads=1,
        max_position_embeddings=1 << 16, tie_word_embeddings=True, bos_token_id=None, pad_token_id=None,
        eos_token_id=ByteSpelling.end_id,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


@pytest.fixture
def settings(broker: str, namespace: str, tmp_path: Path) -> Settings:
    write_policy(tmp_path / "policy")
    flags = [
        f"log.bootstrap={broker}",
        f"log.namespace={namespace}",
        "log.partitions=2",
        "run=domains",
        f"policy.base={tmp_path / 'policy'}",
        f"tasks.domains={{{', '.join(f'{name} = 1' for name in DOMAINS)}}}",
        "tasks.num_samples=4",
        "tasks.deadline_s=200",
        "sampling.max_tokens=4096",
        "generator.sampler=scripted",
        "generator.script=fair",
        "admission.max_staleness=1",
        f"learner.steps={NUM_STEPS}",
        "learner.groups_per_step=7",
        "learner.pack_tokens=4096",
        "evaluation.every=0",
    ]
    return load_settings(flags=flags)


async def until_step(up: Up, step: int) -> None:
    reader = Reader(up.settings.log, ["steps"], blob_dir=up.home / "blobs", start="beginning")
    try:
        while True:
            for event in await asyncio.to_thread(reader.poll, timeout_s=0.5):
                if isinstance(event.record, StepTaken) and event.record.step >= step:
                    return
    finally:
        reader.close()


def read_all(settings: Settings, home: Path, *topics: str) -> list[Any]:
    reader = Reader(settings.log, topics, blob_dir=home / "blobs", start="beginning", bounded=True)
    try:
        return [event.record for event in reader]
    finally:
        reader.close()


async def test_rollouts_of_every_family_are_worked_on_judged_and_trained_on(settings: Settings, tmp_path: Path) -> None:
    said: list[str] = []
    async with running(settings, home=tmp_path, say=said.append) as up:
        await asyncio.wait_for(first_of(until_step(up, NUM_STEPS), up.failed()), DEADLINE_S)
        assert up.supervisor.restarts == dict.fromkeys(up.supervisor.restarts, 0), said
    tasks = {task.task_id: task for task in read_all(settings, tmp_path, "tasks") if isinstance(task, TaskIssued)}
    values = defaultdict(list)
    for reward in read_all(settings, tmp_path, "rewards"):
        assert isinstance(reward, RewardScored)
        assert reward.value is not None, (reward.domain, reward.invalid_reason, reward.detail)
        values[reward.domain].append(reward.value)
    assert values.keys() == set(DOMAINS)
    for domain, found in values.items():
        assert 1.0 in found, (domain, found)
        assert min(found) < 1.0, (domain, found)
    assert read_all(settings, tmp_path, "deadletters") == []
    tool_turns = [turn for turn in read_all(settings, tmp_path, "executions") if turn.outcome.tree is not None]
    assert {tasks[turn.task_id].family for turn in tool_turns} >= {"3d", "agent", "data", "finance", "terminal"}
    assert any(turn.cases for turn in read_all(settings, tmp_path, "executions"))
    open_reader = partial(Reader, settings.log, blob_dir=tmp_path / "blobs")
    bounds = read_state(settings.log).bounds
    blobs, index = tmp_path / "blobs", tmp_path / "index"
    verified = verify(open_reader, blobs, judged=bounds, read_to=bounds, scratch=index, strict=False)
    assert verified.details == ()
