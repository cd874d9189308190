"""The order of domains across restarts, holes and changes of the mix."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from producers.balancing import Balance, Issued, Ledger
from producers.dispatch import Choice
from producers.tasks import domain_at, train_task
from schemas.config import Settings
from schemas.curriculum import CurriculumSettings
from schemas.errors import LogError
from schemas.mixes import DomainMix, MixRevised
from schemas.tasks import SamplingParams
from streams.curriculum.weights import in_millionths

SETTINGS = Settings(run="r", seed=3, curriculum=CurriculumSettings(enabled=True))
BATCH = 5


def mix(version: int, *, run_id: str = "r", **ended: int) -> MixRevised:
    weights = in_millionths({"verbs": 1.0 + version % 3, "repair": 2.0})
    domains = {
        name: DomainMix(family=name, weight=weight, level=version / 4, ended=ended.get(name, version))
        for name, weight in weights.items()
    }
    return MixRevised(run_id=run_id, version=version, domains=domains, cause="groups", ends={})


def issued(index: int, choice: Choice | None) -> Issued:
    domain = domain_at(SETTINGS, index) if choice is None else choice.domain
    level, version = (0, 0) if choice is None else (choice.level, choice.mix_version)
    return Issued(f"t{index}", "r", index, domain, level, "train", version)


def recalled(tasks: Iterable[Issued], mixes: Iterable[MixRevised]) -> tuple[Balance, Ledger]:
    ledger, balance = Ledger("r"), Balance(SETTINGS)
    for task in tasks:
        ledger.take(task)
    balance.recall(ledger, iter(mixes))
    return balance, ledger


def undisturbed(num_batches: int, mixed_after: int) -> list[Issued]:
    """Return what an issuer that is never killed issues: a new mix before every second write."""
    balance, tasks = Balance(SETTINGS), []
    for number in range(num_batches):
        if number >= mixed_after and number % 2 == 0:
            balance.take(mix(number // 2 + 1))
        places = range(number * BATCH, (number + 1) * BATCH)
        tasks += [issued(index, balance.choose(index)) for index in places]
    return tasks


@given(
    killed_at=st.integers(0, 11),
    lost=st.sets(st.integers(0, BATCH - 1)),
    seed=st.integers(0, 100),
    mixed_after=st.sampled_from([0, 4, 12]),
)
@hypothesis_settings(max_examples=60)
def test_an_issuer_that_was_killed_while_it_wrote_goes_on_as_if_it_had_not_been(
    killed_at: int, lost: set[int], seed: int, mixed_after: int
) -> None:
    """Whatever of the last write was lost, the places before one that is there come out as they were."""
    wanted = undisturbed(12, mixed_after)
    there = [task for task in wanted if task.index < (killed_at + 1) * BATCH]
    there = [task for task in there if task.index < killed_at * BATCH or task.index % BATCH not in lost]
    known = [mix(number // 2 + 1) for number in range(killed_at + 1) if number >= mixed_after and number % 2 == 0]
    shuffled = list(there)
    random.Random(seed).shuffle(shuffled)  # partitions come in any order
    balance, ledger = recalled(shuffled, known)
    last = max((task.index for task in there), default=-1)
    found = {task.index: task for task in there}
    for index in range((killed_at + 1) * BATCH):
        if index not in found:
            found[index] = issued(index, balance.choose(index))
    assert [found[index] for index in range(last + 1)] == wanted[: last + 1]
    for index in range(last + 1, len(found)):
        # What nobody ever saw is decided under the newest mix, which is that of the write that was lost.
        assert found[index] == wanted[index]
    assert len(ledger) == last + 1


def test_a_mix_that_tasks_name_and_nobody_has_is_refused() -> None:
    tasks = [Issued("t0", "r", 0, "verbs", 0, "train", 2)]
    with pytest.raises(LogError, match="under mix 2, which is not on the log"):
        recalled(tasks, [mix(1)])
    with pytest.raises(LogError, match="under mix 2"):
        recalled([Issued("t1", "r", 1, "verbs", 0, "train", 2)], [mix(1)])


def test_of_two_mixes_with_one_version_the_first_counts_and_other_runs_have_their_own() -> None:
    balance = Balance(SETTINGS)
    first, other = mix(1), mix(1, verbs=9)
    assert balance.take(first)
    assert not balance.take(other)
    assert not balance.take(mix(2, run_id="else"))
    assert balance.mix == first


def test_nothing_is_open_where_every_domain_is_stopped() -> None:
    balance = Balance(SETTINGS)
    assert balance.is_open
    stopped = {name: DomainMix(family=name, weight=0, status="paused") for name in ("verbs", "repair")}
    balance.take(MixRevised(run_id="r", version=1, domains=stopped, cause="command", ends={}))
    assert not balance.is_open


def test_a_ledger_keeps_the_first_task_of_a_place_and_only_what_trains_in_this_run() -> None:
    ledger = Ledger("r")
    ledger.take(Issued("t2", "r", 2, "verbs", 1, "train", 3))
    ledger.take(Issued("t2", "r", 2, "repair", 0, "train", 4))
    ledger.take(Issued("h", "r", 0, "repair", 0, "held_out", 0))
    ledger.take(Issued("o", "other", 1, "repair", 0, "train", 0))
    assert (ledger.at(2), ledger.at(0), ledger.first_missing, len(ledger)) == (("verbs", 1, 3), None, 0, 3)
    assert ledger.version_for(0) == 3


def test_a_task_that_a_mix_chose_is_a_function_of_settings_place_and_choice() -> None:
    choice = Choice(
        domain="repair", level=2, mix_version=7, num_samples=5, sampling=SamplingParams(temperature=0.5, max_tokens=9)
    )
    task = train_task(SETTINGS, 11, None, choice)
    assert task == train_task(SETTINGS, 11, None, choice)
    assert (task.domain, task.level, task.mix_version, task.num_samples) == ("repair", 2, 7, 5)
    assert task.sampling == choice.sampling
    assert train_task(SETTINGS, 11).mix_version == 0
    plain = train_task(SETTINGS, 11, None, Choice(domain="repair", level=0, mix_version=7))
    assert (plain.num_samples, plain.sampling) == (SETTINGS.tasks.num_samples, SETTINGS.sampling)
