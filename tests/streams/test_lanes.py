"""What is dear holds up nothing that is cheap."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from threading import Event
from typing import Any

import pytest

from schemas.config import JudgeSettings, VerifierSettings, check_judge
from schemas.errors import ConfigError
from schemas.parts import Part
from schemas.tasks import VerifierSpec
from streams.lanes import Lanes, judge_environment
from streams.scoring import Finding, Job, job_of
from streams.verifiers.parts.judging import KEY_FROM, MODEL, TIMEOUT_S, URL
from tests.streams.fake_judge import serving
from tests.streams.part_examples import EXAMPLES, rollout


def job(kind: str) -> Job:
    return job_of(EXAMPLES[kind].spec, EXAMPLES[kind].gold)


class Site:
    """Lanes with a judge that says nothing until it is let."""

    def __init__(self, lanes: Lanes, may_speak: Event, is_asked: Event, errors: list[BaseException]) -> None:
        self.lanes, self.may_speak, self.is_asked, self.errors = lanes, may_speak, is_asked, errors
        self.found: dict[str, Finding] = {}
        self._changed = asyncio.Event()

    def submit(self, name: str, one: Job) -> None:
        self.lanes.submit(one, partial(self._note, name))

    def _note(self, name: str, finding: Finding) -> None:
        assert name not in self.found
        self.found[name] = finding
        self._changed.set()

    async def wait_for(self, *names: str) -> None:
        async with asyncio.timeout(120):
            while not self.found.keys() >= set(names):
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
def num_dear_processes() -> int:
    return 1


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch, num_dear_processes: int) -> AsyncIterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    may_speak, is_asked = Event(), Event()

    def say(_body: dict[str, Any]) -> str:
        is_asked.set()
        may_speak.wait(120)
        return json.dumps({"points": [4, 4]})

    with serving() as judge:
        judge.say = say
        settings = VerifierSettings(
            num_dear_processes=num_dear_processes,
            timeout_s=60,
            dear_timeout_s=200,
            judge=JudgeSettings(url=judge.url, model="judge", timeout_s=90),
            attempts=1,
        )
        errors: list[BaseException] = []
        made = Site(Lanes(settings, on_error=errors.append), may_speak, is_asked, errors)
        try:
            yield made
        finally:
            may_speak.set()
            await made.lanes.close()


async def test_cheap_scorings_go_on_while_a_judge_thinks_and_dear_ones_wait_for_it(site: Site) -> None:
    site.submit("judge", job("judge"))
    assert await asyncio.to_thread(site.is_asked.wait, 120)
    site.submit("geometry", job("geometry"))
    for number in range(20):
        site.submit(f"cheap {number}", job("numeric"))
    await site.wait_for(*(f"cheap {number}" for number in range(20)))
    assert not {"judge", "geometry"} & site.found.keys()
    site.may_speak.set()
    await site.wait_for("judge", "geometry")
    assert [finding.score and finding.score.value for finding in site.found.values()] == [1.0] * 22
    assert "judge-7b" in site.found["judge"].score.evidence["judge"]  # type: ignore[union-attr]
    assert site.errors == []


@pytest.mark.parametrize("num_dear_processes", [2])
async def test_no_dear_scoring_waits_behind_another_while_a_process_is_free(site: Site) -> None:
    names = [f"solid {number}" for number in range(4)]
    site.submit("judge", job("judge"))
    for name in names:
        site.submit(name, job("geometry"))
    await site.wait_for(*names)
    assert "judge" not in site.found


async def test_mathematics_has_its_limit_in_a_worker_whose_own_clock_runs_on(site: Site) -> None:
    part = Part(kind="math", expected="391")
    spec = VerifierSpec(kind="parts", parts=(part,))
    for number, text in enumerate(["391", "17*23", "1e3", "(" * 400, "9^{9^9}"]):
        site.submit(str(number), job_of(spec, rollout(text)))
    await site.wait_for(*"01234")
    assert [site.found[name].score.value for name in "01234"] == [1, 1, 0, 0, 0]  # type: ignore[union-attr]


def test_a_judge_is_told_to_the_processes_by_their_environment_and_the_key_only_by_name() -> None:
    assert judge_environment(JudgeSettings()) == {}
    told = judge_environment(JudgeSettings(url="http://h/v1", model="m", key_from="MY_KEY", timeout_s=3))
    assert told == {URL: "http://h/v1", MODEL: "m", KEY_FROM: "MY_KEY", TIMEOUT_S: "3"}


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        (JudgeSettings(url="http://h/v1"), "wanted both, or neither"),
        (JudgeSettings(model="m"), "wanted both, or neither"),
        (JudgeSettings(url="file:///etc/passwd", model="m"), "wanted http://"),
        (JudgeSettings(url="http://h/v1", model="m", timeout_s=40), "raise dear_timeout_s above 80"),
    ],
)
def test_a_judge_that_cannot_work_is_refused(judge: JudgeSettings, words: str) -> None:
    check_judge(VerifierSettings(judge=JudgeSettings(url="https://h/v1", model="m")))
    with pytest.raises(ConfigError, match=words):
        check_judge(VerifierSettings(judge=judge))
