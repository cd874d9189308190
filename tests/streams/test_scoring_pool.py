import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import StuckError
from schemas.tasks import VerifierSpec
from schemas.trajectory import Trajectory
from streams.scoring import Finding, Job, job_of
from streams.scoring_pool import Pending, ScoringPool
from tests import samples
from tests.streams.stage_fakes import ok, read

COMMAND = (sys.executable, "-m", "tests.streams.misbehaving_worker")


class Pools:
    """Makes pools and closes them."""

    def __init__(self) -> None:
        self.made: list[ScoringPool] = []
        self.errors: list[BaseException] = []
        self.failed = asyncio.Event()

    def make(self, **fields: Any) -> ScoringPool:
        settings = {"num_processes": 1, "timeout_s": 30.0, "attempts": 2, "command": COMMAND} | fields
        pool = ScoringPool(on_error=self.fail, **settings)
        self.made.append(pool)
        return pool

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)
        self.failed.set()


@pytest.fixture
async def pools() -> AsyncIterator[Pools]:
    made = Pools()
    yield made
    for pool in made.made:
        await pool.close()
    assert not any(isinstance(error, AssertionError) for error in made.errors)


def job(text: str, kind: str = "told", expected: str = "right") -> Job:
    trajectory = Trajectory()
    trajectory.turns = {0: read(samples.turn(text=text))}
    trajectory.executions = {0: read(samples.execution(outcome=ok(text)))}
    trajectory.ended = {None: read(samples.ended())}
    return job_of(VerifierSpec(kind=kind, expected=expected), trajectory)


async def findings(pool: ScoringPool, jobs: list[Job]) -> list[Finding]:
    """Return the findings in the order of the jobs."""
    found: dict[int, Finding] = {}
    all_there = asyncio.Event()

    def note(index: int, finding: Finding) -> None:
        assert index not in found
        found[index] = finding
        if len(found) == len(jobs):
            all_there.set()

    for index, one in enumerate(jobs):
        pool.submit(one, partial(note, index))
    async with asyncio.timeout(120):
        await all_there.wait()
    return [found[index] for index in range(len(jobs))]


def values(found: list[Finding]) -> list[float | None]:
    return [finding.score and finding.score.value for finding in found]


async def test_many_jobs_are_scored_each_once(pools: Pools) -> None:
    pool = pools.make(num_processes=2)
    found = await findings(pool, [job("right" if n % 3 else "wrong") for n in range(200)])
    assert values(found) == [1.0 if n % 3 else 0.0 for n in range(200)]
    assert pool.num_replaced == 0


async def test_the_shipped_verifiers_run_in_the_shipped_worker(pools: Pools) -> None:
    pool = ScoringPool(num_processes=1, timeout_s=30, attempts=1, on_error=pools.fail)
    pools.made.append(pool)
    found = await findings(pool, [job("7", "stdout_match", "7"), job("7", "exact_match", "8"), job("7", "unknown")])
    assert values(found) == [1.0, 0.0, None]
    assert found[2].invalid_reason == "verifier_error"
    assert "unknown" in found[2].detail


async def test_a_hung_verifier_is_killed_and_only_its_job_pays(pools: Pools) -> None:
    pool = pools.make(timeout_s=1.0)
    found = await findings(pool, [job("right"), job("hang"), job("right"), job("wrong")])
    assert values(found) == [1.0, None, 1.0, 0.0]
    assert (found[1].invalid_reason, found[1].attempts) == ("verifier_timeout", 2)
    assert [finding.attempts for finding in (found[0], found[2], found[3])] == [1, 1, 1]
    assert pool.num_replaced == 2


async def test_a_verifier_that_dies_is_replaced_and_only_its_job_pays(pools: Pools) -> None:
    pool = pools.make()
    found = await findings(pool, [job("right"), job("die"), job("right")])
    assert values(found) == [1.0, None, 1.0]
    assert found[1].invalid_reason == "verifier_error"
    assert pool.num_replaced == 2


async def test_a_job_whose_process_died_by_chance_is_scored_by_the_next(pools: Pools, tmp_path: Path) -> None:
    (found,) = await findings(pools.make(), [job(f"die_once {tmp_path / 'died'}")])
    assert values([found]) == [1.0]
    assert found.attempts == 2


async def test_a_process_killed_from_outside_loses_no_job(pools: Pools) -> None:
    pool = pools.make()
    (first,) = await findings(pool, [job("pid")])
    assert first.score is not None
    os.kill(int(first.score.detail), signal.SIGKILL)
    (second,) = await findings(pool, [job("pid")])
    assert second.score is not None
    assert second.score.detail != first.score.detail


async def test_what_a_verifier_raises_or_says_beyond_bounds_is_an_invalid_finding(pools: Pools) -> None:
    raised, nan, after = await findings(pools.make(), [job("raise"), job("nan"), job("right")])
    assert (raised.invalid_reason, raised.attempts) == ("verifier_error", 2)
    assert "no judge" in raised.detail
    assert nan.invalid_reason == "verifier_error"
    assert values([after]) == [1.0]


async def test_what_a_verifier_prints_does_not_disturb_its_answers(pools: Pools, capfd: Any) -> None:
    found = await findings(pools.make(), [job("print"), job("right")])
    assert values(found) == [0.0, 1.0]


async def test_a_worker_that_cannot_start_is_an_error_that_says_so(pools: Pools) -> None:
    pool = pools.make(command=(sys.executable, "-c", "raise SystemExit(3)"))
    pool.submit(job("right"), lambda finding: None)
    async with asyncio.timeout(60):
        await pools.failed.wait()
    assert isinstance(pools.errors[0], StuckError)
    assert "did not start" in str(pools.errors[0])


async def test_a_worker_ends_itself_where_nobody_kills_it_in_time() -> None:
    code = (
        "import sys; from streams.verifiers import worker; worker.SELF_DESTRUCTION = 0.001;"
        "import tests.streams.misbehaving_worker as m; from streams import verifiers;"
        "from streams.verifiers.interface import Verifier;"
        "worker.get_verifier = lambda kind: Verifier(name='told', version=1, score=m.score); worker.main()"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, "100", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        await process.communicate(Pending(job("hang"), lambda finding: None).frame)
    assert process.returncode == -signal.SIGALRM
