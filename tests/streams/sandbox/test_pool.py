"""The pool on slots made of nothing: who gets one, when one is replaced, what happens when none can be started."""

import threading
from collections.abc import Callable
from typing import cast

import pytest

from schemas.errors import SandboxError
from streams.sandbox import pool as pool_module
from streams.sandbox.pool import Pool
from streams.sandbox.slot import Slot, SlotFailedError


class FakeSlot:
    """Counts jobs, and remembers how it ended."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.num_jobs = 0
        self.end = ""

    def close(self) -> None:
        self.end = "closed"

    def kill(self) -> None:
        self.end = "killed"


def start_fake(number: int) -> Slot:
    return cast("Slot", FakeSlot(number))


def use(pool: Pool, *, is_sound: bool = True) -> FakeSlot:
    slot = pool.take()
    slot.num_jobs += 1
    pool.give_back(slot, is_sound=is_sound)
    return cast("FakeSlot", slot)


@pytest.fixture
def make_pool() -> "Callable[..., Pool]":
    def make(start: Callable[[int], Slot] = start_fake, num_slots: int = 1, jobs_per_slot: int = 100) -> Pool:
        return Pool(start, num_slots, jobs_per_slot=jobs_per_slot)

    return make


def test_a_slot_is_replaced_after_its_share_of_jobs(make_pool: Callable[..., Pool]) -> None:
    pool = make_pool(jobs_per_slot=3)
    used = [use(pool) for _ in range(7)]
    assert [used.index(slot) for slot in used] == [0, 0, 0, 3, 3, 3, 6]
    assert [used[0].end, used[3].end, used[6].end] == ["closed", "closed", ""]
    pool.close()
    assert used[6].end == "closed"


def test_a_slot_that_failed_is_killed_and_replaced(make_pool: Callable[..., Pool]) -> None:
    pool = make_pool()
    first, second = use(pool, is_sound=False), use(pool)
    assert first.end == "killed"
    assert second is not first
    assert second.number == first.number
    pool.close()


def test_all_slots_start_in_one_thread_that_lives_on(make_pool: Callable[..., Pool]) -> None:
    starters: list[threading.Thread] = []

    def start(number: int) -> Slot:
        starters.append(threading.current_thread())
        return start_fake(number)

    pool = make_pool(start, num_slots=3)
    for _ in range(3):
        use(pool, is_sound=False)
    extra = pool.start_extra()
    assert len(set(starters)) == 1
    assert starters[0].is_alive()
    assert extra.number >= 3
    pool.close()
    assert not starters[0].is_alive()


def test_a_first_slot_that_does_not_start_is_the_callers_error(make_pool: Callable[..., Pool]) -> None:
    def start(number: int) -> Slot:
        raise SlotFailedError(f"{number} did not start: bwrap: no")

    with pytest.raises(SlotFailedError, match="bwrap: no"):
        make_pool(start)


def test_a_slot_that_cannot_be_restarted_is_tried_again(make_pool: Callable[..., Pool]) -> None:
    attempts: list[int] = []

    def start(number: int) -> Slot:
        attempts.append(number)
        if 2 <= len(attempts) <= 3:
            raise SlotFailedError("not now")
        return start_fake(number)

    pool = make_pool(start)
    use(pool, is_sound=False)
    assert use(pool).num_jobs == 1
    assert len(attempts) == 4
    pool.close()


def test_whoever_waits_in_vain_is_told_why(make_pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_WAIT_S", 0.05)
    failed = threading.Event()

    def start(number: int) -> Slot:
        if failed.is_set():
            raise SlotFailedError("out of namespaces")
        failed.set()
        return start_fake(number)

    pool = make_pool(start)
    use(pool, is_sound=False)
    with pytest.raises(SlotFailedError, match="out of namespaces"):
        pool.take()
    pool.close()


def test_closing_wakes_all_who_wait(make_pool: Callable[..., Pool]) -> None:
    pool = make_pool()
    held = pool.take()
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            pool.take()
        except SandboxError as error:
            errors.append(error)

    waiters = [threading.Thread(target=wait) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    pool.close()
    for waiter in waiters:
        waiter.join(10)
    assert len(errors) == 3
    pool.give_back(held, is_sound=True)
    assert cast("FakeSlot", held).end == "killed"
    with pytest.raises(SandboxError):
        pool.start_extra()
