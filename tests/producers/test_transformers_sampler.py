"""The real sampler against a plain forward pass of the same weights."""

import hashlib
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from producers.samplers import lane as lane_module
from producers.samplers.draw import DrawParams, draw, keep_top
from producers.samplers.files import read_config
from producers.samplers.interface import Finished, Request, Weights
from producers.samplers.llama import can_run
from producers.samplers.noise import uniforms
from producers.samplers.transformers import NUM_PINNED, TransformersSampler
from schemas.errors import CheckpointError
from schemas.ids import digest_of
from schemas.tasks import SamplingParams
from tests.producers.tiny_policy import FAMILIES, write_policy

PROMPTS = ["plus 3 4|", "call f 12 5|", "a", "call f 1 2|print(f(1,2))\nmode q|"]


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Weights]:
    folder = tmp_path_factory.mktemp("policies")
    return [write_policy(folder / str(version), version=version) for version in range(5)]


@pytest.fixture(params=["lean", "transformers"])
def sampler(request: pytest.FixtureRequest, versions: list[Weights]) -> TransformersSampler:
    made = TransformersSampler(num_slots=8, device="cpu", is_plain=request.param == "transformers")
    made.load(versions[0])
    return made


def request_of(sampler: TransformersSampler, name: str, prompt: str, seed: int = 0, **fields: Any) -> Request:
    sampling = SamplingParams(**({"max_tokens": 10} | fields))
    return Request(id=name, prompt_ids=sampler.encode(prompt), sampling=sampling, seed=seed)


def drain(sampler: TransformersSampler) -> dict[str, Finished]:
    found = {}
    while sampler.num_open:
        found.update({f.id: f for f in sampler.step()})
    return found


@torch.no_grad()
def plain_logprobs(weights: Weights, request: Request, finished: Finished) -> np.ndarray:
    """Return the log-probabilities, [T], that a forward pass over the whole sequence gives to the sampled tokens."""
    model = AutoModelForCausalLM.from_pretrained(weights.address, dtype=torch.float32)
    sequence = torch.tensor([[*request.prompt_ids.tolist(), *finished.token_ids.tolist()]])
    prompt = len(request.prompt_ids)
    logits = model(input_ids=sequence).logits[0, prompt - 1 : -1]
    sampling = request.sampling
    if sampling.temperature not in (0, 1):
        logits = logits / sampling.temperature
    logprobs = torch.log_softmax(logits, -1)
    if sampling.top_p < 1 and sampling.temperature:
        for row in logprobs:
            order = row.argsort(descending=True)
            before = row[order].exp().cumsum(0) - row[order].exp()
            row[order[before >= sampling.top_p]] = -torch.inf
        logprobs = torch.log_softmax(logprobs, -1)
    return logprobs.gather(-1, sequence[0, prompt:, None])[:, 0].numpy()


def assert_plain_logprobs(sampler: TransformersSampler, weights: Weights, requests: list[Request]) -> None:
    """Draw all together, and compare every log-probability with a plain forward pass."""
    for request in requests:
        sampler.submit(request)
    found = drain(sampler)
    for request in requests:
        f = found[request.id]
        np.testing.assert_allclose(f.logprobs, plain_logprobs(weights, request, f), atol=2e-5)


@pytest.mark.parametrize(
    "sampling",
    [
        {},
        {"temperature": 0.7},
        {"temperature": 1.5, "top_p": 0.8},
        {"top_p": 0.5},
        {"temperature": 0.0},
        {"temperature": 0.0, "top_p": 0.3},
    ],
)
def test_logprobs_are_those_of_a_plain_forward_pass(
    sampler: TransformersSampler, versions: list[Weights], sampling: dict[str, float]
) -> None:
    requests = [request_of(sampler, str(i), p, seed=i, **sampling) for i, p in enumerate(PROMPTS * 2)]
    assert_plain_logprobs(sampler, versions[0], requests)


def test_rows_with_different_parameters_share_a_batch(sampler: TransformersSampler, versions: list[Weights]) -> None:
    kinds = [{}, {"temperature": 0.0}, {"temperature": 0.5, "top_p": 0.6}, {"top_p": 0.9}]
    requests = [request_of(sampler, str(i), PROMPTS[1], seed=i, **kind) for i, kind in enumerate(kinds)]
    assert_plain_logprobs(sampler, versions[0], requests)


def test_after_a_swap_each_token_has_the_logprob_of_the_version_that_it_names(
    sampler: TransformersSampler, versions: list[Weights]
) -> None:
    requests = [request_of(sampler, str(i), p, seed=i, max_tokens=12) for i, p in enumerate(PROMPTS * 2)]
    for request in requests[:5]:
        sampler.submit(request)
    found: dict[str, Finished] = {}
    for version in range(1, 5):
        for _ in range(2):
            found.update({f.id: f for f in sampler.step()})
        sampler.load(versions[version])
        if version < 4:
            sampler.submit(requests[4 + version])
    found.update(drain(sampler))
    assert len(found) == len(requests)
    assert max(len(set(f.versions.tolist())) for f in found.values()) >= 4
    for request in requests:
        f = found[request.id]
        by_version = {v: plain_logprobs(versions[v], request, f) for v in set(f.versions.tolist())}
        wanted = [by_version[v][place] for place, v in enumerate(f.versions.tolist())]
        np.testing.assert_allclose(f.logprobs, wanted, atol=2e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_models_of_other_families_are_sampled_and_swapped_as_well(family: str, tmp_path: Path) -> None:
    first, second = (write_policy(tmp_path / str(v), version=v, family=family) for v in range(2))
    sampler = TransformersSampler(num_slots=8, device="cpu")
    sampler.load(first)
    requests = [request_of(sampler, str(i), p, seed=i) for i, p in enumerate(PROMPTS)]
    for request in requests:
        sampler.submit(request)
    found = {f.id: f for _ in range(2) for f in sampler.step()}
    sampler.load(second)
    found.update(drain(sampler))
    for request in requests:
        f = found[request.id]
        by_version = [plain_logprobs(weights, request, f) for weights in (first, second)]
        wanted = [by_version[v][place] for place, v in enumerate(f.versions.tolist())]
        np.testing.assert_allclose(f.logprobs, wanted, atol=2e-5)
    assert {len(set(f.versions.tolist())) for f in found.values()} >= {2}


def test_the_demo_policy_runs_on_the_lean_engine_and_agrees_with_transformers() -> None:
    folder = Path(__file__).parents[2] / "demo" / "policy"
    digest = digest_of((folder / "model.safetensors").read_bytes())
    weights = Weights(version=0, address=str(folder), digest=digest)
    assert can_run(read_config(weights))
    sampler = TransformersSampler(num_slots=16, device="cpu")
    sampler.load(weights)
    requests = [request_of(sampler, str(i), "call f 12 7|", seed=i, max_tokens=24) for i in range(16)]
    for request in requests:
        sampler.submit(request)
    found = drain(sampler)
    for request in requests:
        f = found[request.id]
        np.testing.assert_allclose(f.logprobs, plain_logprobs(weights, request, f), atol=2e-5)
    assert sum(f.finish_reason == "stop" for f in found.values()) >= 14


def test_what_is_not_exactly_llama_is_left_to_transformers(versions: list[Weights]) -> None:
    config = read_config(versions[0])
    assert can_run(config)
    for change in (
        {"model_type": "qwen2"},
        {"attention_bias": True},
        {"hidden_act": "gelu"},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}},
        {"rope_parameters": None, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    ):
        assert not can_run(config | change)


def test_filling_in_several_passes_changes_nothing(
    sampler: TransformersSampler, versions: list[Weights], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_module, "FILL_TOKENS", 20)
    requests = [request_of(sampler, str(i), p, seed=i) for i, p in enumerate(PROMPTS * 2)]
    assert_plain_logprobs(sampler, versions[0], requests)


def test_a_second_turn_goes_on_from_the_exact_tokens_of_the_first(
    sampler: TransformersSampler, versions: list[Weights]
) -> None:
    first = request_of(sampler, "turn0", PROMPTS[0], seed=5)
    sampler.submit(first)
    answer = drain(sampler)["turn0"]
    ids = np.concatenate([first.prompt_ids, answer.token_ids, sampler.encode("\nerror|")])
    second = Request(id="turn1", prompt_ids=ids, sampling=SamplingParams(max_tokens=8), seed=6)
    sampler.submit(second)
    f = drain(sampler)["turn1"]
    np.testing.assert_allclose(f.logprobs, plain_logprobs(versions[0], second, f), atol=2e-5)


def test_changed_missing_and_misfitting_weights_are_refused_and_the_old_ones_stay(
    sampler: TransformersSampler, versions: list[Weights], tmp_path: Path
) -> None:
    request = request_of(sampler, "before", PROMPTS[0], seed=2)
    sampler.submit(request)
    before = drain(sampler)["before"]
    changed = tmp_path / "changed"
    shutil.copytree(versions[1].address, changed)
    content = bytearray((changed / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (changed / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="digest"):
        sampler.load(Weights(version=1, address=str(changed), digest=versions[1].digest))
    with pytest.raises(CheckpointError, match="No such file"):
        sampler.pin(Weights(version=1, address=str(tmp_path / "gone"), digest=versions[1].digest))
    (changed / "model.safetensors").write_bytes(b"no tensors")
    digest = "sha256:" + hashlib.sha256(b"no tensors").hexdigest()
    with pytest.raises(CheckpointError):
        sampler.load(Weights(version=1, address=str(changed), digest=digest))
    other = write_policy(tmp_path / "wider", version=9, hidden_size=48)
    with pytest.raises(CheckpointError, match="do not fit"):
        sampler.load(other)
    assert sampler.version == 0
    assert not sampler.is_pinned(1)
    sampler.submit(request)
    again = drain(sampler)["before"]
    assert again.token_ids.tolist() == before.token_ids.tolist()
    assert again.logprobs.tolist() == before.logprobs.tolist()


def test_idle_pinned_versions_make_room_and_busy_ones_stay(
    sampler: TransformersSampler, versions: list[Weights]
) -> None:
    sampler.pin(versions[1])
    sampler.submit(Request(id="r", prompt_ids=sampler.encode("a"), sampling=SamplingParams(), seed=0, policy_version=1))
    for version in (2, 3, 4):
        sampler.pin(versions[version])
    assert sampler.is_pinned(1)
    assert sampler.is_pinned(4)
    assert not sampler.is_pinned(2)
    assert set(drain(sampler)["r"].versions.tolist()) == {1}
    sampler.pin(versions[0])
    assert sum(sampler.is_pinned(version) for version in range(5)) == NUM_PINNED


def test_many_draws_follow_the_distribution() -> None:
    num_draws, temperature, top_p = 40_000, 0.8, 0.9
    logits_V = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, -6.0])
    params = DrawParams(
        temperatures_B=np.full(num_draws, temperature, np.float32),
        top_ps_B=np.full(num_draws, top_p, np.float32),
        seeds_B=np.arange(num_draws, dtype=np.uint64),
        places_B=np.full(num_draws, 7),
    )
    drawn = draw(logits_V.expand(num_draws, -1), params)
    expected = torch.softmax(logits_V / temperature, -1).numpy()
    expected = np.where(np.cumsum(expected) - expected < top_p, expected, 0)
    expected /= expected.sum()
    counts = Counter(drawn.tokens_B.tolist())
    for token, probability in enumerate(expected):
        spread = 4 * np.sqrt(num_draws * probability * (1 - probability))
        assert abs(counts[token] - num_draws * probability) <= spread
    np.testing.assert_allclose(drawn.logprobs_B, np.log(expected[drawn.tokens_B]), atol=1e-5)


def test_noise_is_uniform_in_seed_and_in_place_and_never_one() -> None:
    seeds = np.arange(20_000, dtype=np.uint64)
    by_seed = uniforms(seeds, np.full(20_000, 3))
    by_place = uniforms(np.full(20_000, 12345, np.uint64), np.arange(20_000))
    for values in (by_seed, by_place):
        counts, _ = np.histogram(values, bins=20, range=(0, 1))
        assert ((counts - 1000) ** 2 / 1000).sum() < 45  # 99.9th percentile of chi-square with 19 degrees: 43.8
        assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.03
        assert values.max() < 1
    assert abs(np.corrcoef(by_seed, by_place)[0, 1]) < 0.03


def test_top_p_keeps_the_likeliest_token_and_leaves_rows_with_one_alone() -> None:
    logprobs_BV = torch.log_softmax(torch.tensor([[3.0, 1.0, 0.0], [3.0, 1.0, 0.0]]), -1)
    kept_BV = keep_top(logprobs_BV, torch.tensor([0.0, 1.0]))
    assert kept_BV[0].tolist() == [0.0, -torch.inf, -torch.inf]
    assert kept_BV[1].tolist() == logprobs_BV[1].tolist()
