import asyncio
import os
import signal
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from rollog.broker import EmbeddedBroker
from rollog.services import SERVICES, note_service, read_services, services_of
from rollog.supervisor import wait_or_timeout
from rollog.up import BrokerKeeper, first_of, prepare_topics, service_command
from schemas.config import LogSettings, Settings, load_settings
from schemas.curriculum import CurriculumSettings
from schemas.errors import BrokerError, ConfigError

DEADLINE_S = 60.0


def answers(bootstrap: str) -> bool:
    return bool(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).brokers)


async def test_a_killed_broker_comes_back_at_its_address_and_is_stopped_at_the_end(tmp_path: Path) -> None:
    came_back = asyncio.Event()
    keeper = BrokerKeeper(EmbeddedBroker(tmp_path), say=lambda text: None, on_start=came_back.set)
    bootstrap = await keeper.start()
    came_back.clear()
    first = keeper.pid

    os.kill(first, signal.SIGKILL)
    assert await wait_or_timeout(came_back, DEADLINE_S)

    assert keeper.pid not in (0, first)
    assert keeper.restarts == 1
    assert await asyncio.to_thread(answers, bootstrap)
    await keeper.stop()
    assert keeper.pid == 0


async def test_who_waits_for_a_failure_may_give_up_and_the_broker_is_kept_all_the_same(tmp_path: Path) -> None:
    keeper = BrokerKeeper(EmbeddedBroker(tmp_path), say=lambda text: None)
    await keeper.start()

    await first_of(keeper.failed(), asyncio.to_thread(os.getpid))

    assert keeper.pid
    await keeper.stop()
    assert keeper.pid == 0


async def test_a_broker_that_runs_already_is_used_and_left_running(tmp_path: Path) -> None:
    owner, guest = (BrokerKeeper(EmbeddedBroker(tmp_path), say=lambda text: None) for _ in range(2))
    bootstrap = await owner.start()

    assert await guest.start() == bootstrap
    await guest.stop()

    assert await asyncio.to_thread(answers, bootstrap)
    await owner.stop()


async def test_the_first_that_is_over_ends_the_others_and_its_error_is_raised() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("endless")

    async def failing() -> None:
        raise BrokerError("gone")

    with pytest.raises(BrokerError, match="gone"):
        await first_of(endless(), failing())
    assert ended == ["endless"]


def test_services_stop_from_what_issues_to_what_learns(tmp_path: Path) -> None:
    names = [service_command(name, Settings(), tmp_path / "settings.json", home=tmp_path).name for name in SERVICES]

    order = [
        "issuer", "curriculum", "evaluator", "generator", "executor", "verifier", "assembler", "alerts", "learner",
        "sealer",
    ]  # fmt: skip
    assert names == [f"{name}-0" for name in order]


def test_the_curriculum_is_a_process_only_where_it_is_on() -> None:
    off, on = Settings(), Settings(curriculum=CurriculumSettings(enabled=True))
    assert services_of(on) == list(SERVICES)
    assert services_of(off) == [name for name in SERVICES if name != "curriculum"]


def test_a_service_says_where_it_listens(tmp_path: Path) -> None:
    note_service(tmp_path, "verifier-0", port=1234)

    noted = read_services(tmp_path)["verifier-0"]

    assert (noted["pid"], noted["port"]) == (os.getpid(), 1234)


def test_topics_with_another_partition_count_are_refused_with_the_remedy(broker: str, namespace: str) -> None:
    log = LogSettings(bootstrap=broker, namespace=namespace, partitions=2)
    prepare_topics(Settings(log=log))

    with pytest.raises(ConfigError, match=r"log\.partitions"):
        prepare_topics(load_settings(flags=[f"log.bootstrap={broker}", f"log.namespace={namespace}"]))
