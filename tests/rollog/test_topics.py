from concurrent.futures import Future

import msgspec
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from rollog.topics import check_topics, create_topics, describe_topics
from schemas.config import LogSettings
from schemas.errors import ConfigError, LogError
from schemas.topics import TOPICS


@pytest.fixture
def log(broker: str, namespace: str) -> LogSettings:
    return LogSettings(bootstrap=broker, namespace=namespace, partitions=3)


def admin(log: LogSettings) -> AdminClient:
    return AdminClient({"bootstrap.servers": log.bootstrap})


def done(futures: dict[object, Future[None]]) -> None:
    for future in futures.values():
        future.result(15)


def test_what_was_created_is_as_the_catalogue_says(log: LogSettings) -> None:
    created = create_topics(log)

    assert sorted(created) == sorted(log.namespace + name for name in TOPICS)
    assert check_topics(log) == []
    partitions = {state.name.removeprefix(log.namespace): state.partitions for state in describe_topics(log)}
    assert partitions["tasks"] == 3
    assert partitions["steps"] == 1


def test_creating_again_creates_nothing(log: LogSettings) -> None:
    create_topics(log)

    assert create_topics(log) == []


def test_a_missing_topic_is_drift(log: LogSettings) -> None:
    drifts = check_topics(log)

    assert [drift.setting for drift in drifts] == ["exists"] * len(TOPICS)
    assert all(state.partitions == 0 for state in describe_topics(log))


def test_another_partition_count_is_drift(log: LogSettings) -> None:
    create_topics(log)

    drifts = check_topics(msgspec.structs.replace(log, partitions=4))

    assert {drift.setting for drift in drifts} == {"partitions"}
    assert {(drift.wanted, drift.got) for drift in drifts} == {("4", "3")}
    assert len(drifts) == sum(topic.by_task for topic in TOPICS.values())


def test_a_changed_setting_is_drift(log: LogSettings) -> None:
    create_topics(log)
    change = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, log.namespace + "tasks", incremental_configs=[change])
    client = admin(log)
    done(client.incremental_alter_configs([resource]))

    drifts = check_topics(log)

    assert [str(drift) for drift in drifts] == [f"{log.namespace}tasks: retention.ms is 1000, wanted -1"]


def test_a_topic_that_is_there_is_left_as_it_is(log: LogSettings) -> None:
    client = admin(log)
    done(client.create_topics([NewTopic(log.namespace + "tasks", num_partitions=1, replication_factor=1)]))

    created = create_topics(log)

    assert log.namespace + "tasks" not in created
    assert ("partitions", "1") in {(drift.setting, drift.got) for drift in check_topics(log)}


def test_no_address_is_a_settings_error() -> None:
    with pytest.raises(ConfigError, match=r"log\.bootstrap"):
        check_topics(LogSettings())


def test_nobody_at_the_address_is_a_log_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollog.topics.TIMEOUT_S", 0.2)

    with pytest.raises(LogError, match=r"127\.0\.0\.1:1"):
        describe_topics(LogSettings(bootstrap="127.0.0.1:1"))
