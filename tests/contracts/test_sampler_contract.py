"""What every sampler must do, whatever is behind it."""

from collections.abc import Callable

import numpy as np
import pytest

from producers.samplers.interface import Finished, Request, Sampler, Weights
from producers.samplers.scripted import ScriptedSampler
from producers.samplers.spelling import ByteSpelling, PolicySpelling
from schemas.errors import ConfigError
from schemas.tasks import SamplingParams
from tests.producers.tiny_policy import write_policy

MakeSampler = Callable[[], Sampler]
NUM_SLOTS = 8
PROMPTS = ["plus 3 4|", "call f 12 5|", "a", "call f 1 2|print(f(1,2))\nmode q|"]


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Weights]:
    folder = tmp_path_factory.mktemp("policies")
    return [write_policy(folder / str(version), version=version) for version in range(4)]


@pytest.fixture(params=["scripted", "scripted as policy", "lean", "transformers"])
def make_sampler(request: pytest.FixtureRequest, versions: list[Weights]) -> MakeSampler:
    def make() -> Sampler:
        if request.param.startswith("scripted"):
            spelling = ByteSpelling() if request.param == "scripted" else PolicySpelling()
            sampler: Sampler = ScriptedSampler(num_slots=NUM_SLOTS, spelling=spelling)
        else:
            from producers.samplers.transformers import TransformersSampler

            is_plain = request.param == "transformers"
            sampler = TransformersSampler(num_slots=NUM_SLOTS, device="cpu", is_plain=is_plain)
        sampler.load(versions[0])
        return sampler

    return make


def ask(
    sampler: Sampler,
    name: str,
    prompt: str = PROMPTS[0],
    *,
    seed: int = 1,
    version: int | None = None,
    sampling: SamplingParams | None = None,
) -> Request:
    sampling = sampling or SamplingParams(max_tokens=12)
    ids = sampler.encode(prompt)
    request = Request(id=name, prompt_ids=ids, sampling=sampling, seed=seed, policy_version=version)
    sampler.submit(request)
    return request


def drain(sampler: Sampler, limit: int = 500) -> dict[str, Finished]:
    found: dict[str, Finished] = {}
    for _ in range(limit):
        if not sampler.num_open:
            return found
        for finished in sampler.step():
            assert finished.id not in found
            found[finished.id] = finished
    raise AssertionError(f"{sampler.num_open} requests did not end within {limit} steps")


def same(a: Finished, b: Finished) -> bool:
    return a.token_ids.tolist() == b.token_ids.tolist() and np.allclose(a.logprobs, b.logprobs, atol=1e-4)


def test_text_comes_back_from_its_ids_and_special_tokens_do_not(make_sampler: MakeSampler) -> None:
    sampler = make_sampler()
    ids = sampler.encode(PROMPTS[3])
    assert ids.dtype == np.int32
    assert sampler.decode(ids) == PROMPTS[3]
    ask(sampler, "r")
    finished = drain(sampler)["r"]
    assert sampler.decode(finished.token_ids) == sampler.decode([t for t in finished.token_ids.tolist() if t > 1])


def test_every_request_comes_back_once_with_arrays_of_one_length(make_sampler: MakeSampler) -> None:
    sampler = make_sampler()
    for i in range(NUM_SLOTS):
        ask(sampler, str(i), PROMPTS[i % 4], seed=i)
    assert (sampler.num_open, sampler.num_free) == (NUM_SLOTS, 0)
    found = drain(sampler)
    assert set(found) == {str(i) for i in range(NUM_SLOTS)}
    for f in found.values():
        assert 1 <= len(f.token_ids) == len(f.logprobs) == len(f.versions) <= 12
        assert (f.token_ids.dtype, f.logprobs.dtype, f.versions.dtype) == (np.int32, np.float32, np.int32)
        assert np.isfinite(f.logprobs).all()
        assert (f.logprobs <= 0).all()
        assert f.queued_s >= 0
        assert f.generate_s >= 0
    assert (sampler.num_open, sampler.num_free) == (0, NUM_SLOTS)


def test_a_request_gives_the_same_alone_and_among_others_that_come_and_go(make_sampler: MakeSampler) -> None:
    alone = make_sampler()
    expected = {}
    for i, prompt in enumerate(PROMPTS):
        ask(alone, str(i), prompt, seed=50 + i)
        expected.update(drain(alone))
    crowded, found, others = make_sampler(), {}, 0
    for i, prompt in enumerate(PROMPTS):
        while crowded.num_free > 1:
            short = SamplingParams(max_tokens=1 + others % 7)
            ask(crowded, f"other{others}", PROMPTS[others % 4], seed=others, sampling=short)
            others += 1
        ask(crowded, str(i), prompt, seed=50 + i)
        for _ in range(3):
            found.update({f.id: f for f in crowded.step()})
    found.update(drain(crowded))
    assert all(same(found[name], expected[name]) for name in expected)
    assert len(found) == len(expected) + others


def test_the_seed_decides_the_answer(make_sampler: MakeSampler) -> None:
    sampler = make_sampler()
    answers = []
    for _ in range(2):
        for seed in range(NUM_SLOTS):
            ask(sampler, str(seed), seed=seed)
        found = drain(sampler)
        answers.append([tuple(found[str(seed)].token_ids.tolist()) for seed in range(NUM_SLOTS)])
    assert answers[0] == answers[1]
    assert len(set(answers[0])) > 1


def test_an_answer_stops_at_its_end_token_or_at_its_length(make_sampler: MakeSampler) -> None:
    sampler = make_sampler()
    reasons = set()
    for i in range(NUM_SLOTS):
        ask(sampler, str(i), seed=i, sampling=SamplingParams(max_tokens=3 if i % 2 else 60))
    for name, f in drain(sampler).items():
        reasons.add(f.finish_reason)
        is_end = sampler.decode(f.token_ids[-1:]) == ""
        assert is_end if f.finish_reason == "stop" else len(f.token_ids) == (3 if int(name) % 2 else 60)
    assert reasons == {"stop", "length"}


def test_the_context_length_ends_an_answer(make_sampler: MakeSampler) -> None:
    sampler = make_sampler()
    prompt = "a" * (sampler.context_length - 2)
    ask(sampler, "r", prompt, sampling=SamplingParams(max_tokens=50))
    assert len(drain(sampler)["r"].token_ids) <= 2


def test_versions_name_the_weights_token_by_token_through_a_swap(
    make_sampler: MakeSampler, versions: list[Weights]
) -> None:
    sampler = make_sampler()
    done: list[Finished] = []
    names = [str(i) for i in range(NUM_SLOTS)]
    for i, name in enumerate(names):
        ask(sampler, name, PROMPTS[i % 4], seed=i)
    for version in (1, 2):
        for _ in range(2):
            done.extend(sampler.step())
        sampler.load(versions[version])
        assert sampler.version == version
    done.extend(drain(sampler).values())
    expected = [0, 0, 1, 1, *[2] * 8]
    assert all(f.versions.tolist() == expected[: len(f.versions)] for f in done)
    assert {f.id for f in done} == set(names)
    assert any(len(f.versions) > 4 for f in done)


def test_a_pinned_version_is_not_touched_by_the_live_one_nor_the_other_way_round(
    make_sampler: MakeSampler, versions: list[Weights]
) -> None:
    sampler = make_sampler()
    ask(sampler, "alone")
    alone = drain(sampler)["alone"]
    sampler.pin(versions[0])
    assert sampler.is_pinned(0)
    assert not sampler.is_pinned(3)
    sampler.load(versions[3])
    ask(sampler, "pinned", version=0)
    ask(sampler, "live")
    for version in (2, 1):
        sampler.step()
        sampler.load(versions[version])
    found = drain(sampler)
    assert same(found["pinned"], alone)
    assert set(found["pinned"].versions.tolist()) == {0}
    assert found["live"].versions.tolist()[:2] == [3, 2][: len(found["live"].versions)]


def test_a_cancelled_request_frees_its_slot_and_never_comes_back(make_sampler: MakeSampler) -> None:
    sampler = make_sampler()
    expected = make_sampler()
    for i in range(NUM_SLOTS):
        ask(sampler, str(i), PROMPTS[i % 4], seed=i)
        if i % 3:
            ask(expected, str(i), PROMPTS[i % 4], seed=i)
    before = {f.id: f for f in sampler.step()}
    cancelled = [str(i) for i in range(0, NUM_SLOTS, 3)]
    assert [sampler.cancel(name) for name in cancelled] == [name not in before for name in cancelled]
    assert not sampler.cancel("never seen")
    found = before | drain(sampler)
    wanted = drain(expected)
    assert set(wanted) == set(found) - set(cancelled)
    assert all(same(found[name], wanted[name]) for name in wanted)
    assert sampler.num_free == NUM_SLOTS


def test_a_request_cancelled_before_its_first_step_leaves_the_others_whole(make_sampler: MakeSampler) -> None:
    sampler, expected = make_sampler(), make_sampler()
    ask(sampler, "running", seed=3)
    ask(expected, "running", seed=3)
    started = {f.id: f for f in sampler.step()}
    ask(sampler, "dropped", seed=4)
    ask(sampler, "late", PROMPTS[1], seed=5)
    ask(expected, "late", PROMPTS[1], seed=5)
    sampler.cancel("dropped")
    found, wanted = started | drain(sampler), drain(expected)
    assert set(found) == {"running", "late"}
    assert all(same(found[name], wanted[name]) for name in wanted)


def test_slots_are_neither_leaked_nor_exceeded_over_many_requests(make_sampler: MakeSampler) -> None:
    sampler = make_sampler()
    num_sent, seen = 0, []
    while len(seen) < 100:
        while sampler.num_free and num_sent < 100:
            sampling = SamplingParams(max_tokens=1 + num_sent % 9)
            ask(sampler, str(num_sent), PROMPTS[num_sent % 4], seed=num_sent, sampling=sampling)
            num_sent += 1
        assert sampler.num_open + sampler.num_free == NUM_SLOTS
        seen.extend(f.id for f in sampler.step())
    assert sorted(seen, key=int) == [str(i) for i in range(100)]
    assert sampler.num_free == NUM_SLOTS


def test_more_requests_than_slots_and_unknown_versions_are_refused(make_sampler: MakeSampler) -> None:
    sampler = make_sampler()
    for i in range(NUM_SLOTS):
        ask(sampler, str(i))
    with pytest.raises(ConfigError, match="slots"):
        ask(sampler, "one too many")
    assert len(drain(sampler)) == NUM_SLOTS
    empty = ScriptedSampler(num_slots=1)
    with pytest.raises(ConfigError, match="not loaded"):
        ask(empty, "r")
