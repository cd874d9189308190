"""The catalogue on a cluster: creates its topics, finds where they drifted from it, describes them.

Nothing else creates topics. A topic that is there already is never changed: `check` says what differs, and a person
decides, since more partitions re-map keys and a shorter retention deletes facts.
"""

import time
from collections.abc import Iterable

import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType
from rich.table import Table

from schemas.config import LogSettings
from schemas.connection import client_options, on_cluster
from schemas.errors import LogError, StuckError
from schemas.topics import DAY_MS, TOPICS, Topic

TIMEOUT_S = 15.0


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between the catalogue and the cluster."""

    topic: str
    """With the namespace, as the cluster knows it."""
    setting: str
    """`exists`, `partitions`, `replication`, or a Kafka setting."""
    wanted: str
    got: str

    def __str__(self) -> str:
        """Return it as a line for people."""
        return f"{self.topic}: {self.setting} is {self.got}, wanted {self.wanted}"


class TopicState(msgspec.Struct, frozen=True, kw_only=True):
    """One topic as it is on the cluster."""

    name: str
    """With the namespace."""
    purpose: str
    records: tuple[str, ...]
    key: str
    written_by: str
    partitions: int
    """0 where it does not exist."""
    replication: int
    settings: dict[str, str]
    """Those that the catalogue decides."""


def admin(log: LogSettings) -> AdminClient:
    """Return a client for administration. Raises ConfigError where there is no address."""
    return AdminClient({**client_options(log), "client.id": "rollog-topics"})


def create_topics(log: LogSettings) -> list[str]:
    """Create what is missing and return those names, once every partition can be used. Raises LogError, StuckError."""
    wanted = [
        NewTopic(
            on_cluster(log, topic.name),
            num_partitions=topic.partitions(log.partitions),
            replication_factor=log.replication,
            config=topic.settings,
        )
        for topic in TOPICS.values()
    ]
    created = []
    client = admin(log)  # held: its answers end with it
    for name, future in client.create_topics(wanted, operation_timeout=TIMEOUT_S).items():
        try:
            future.result(TIMEOUT_S)
            created.append(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise LogError(f"topic {name} could not be created: {error.args[0].str()}") from error
    await_leaders(client, [topic for topic in wanted if topic.topic in created])
    return created


def await_leaders(client: AdminClient, topics: Iterable[NewTopic]) -> None:
    """Return once every partition answers: a topic exists before its leaders know that they lead it."""
    end = time.monotonic() + TIMEOUT_S
    waiting = [TopicPartition(topic.topic, number) for topic in topics for number in range(topic.num_partitions)]
    while waiting:
        answers = client.list_offsets({at: OffsetSpec.latest() for at in waiting}, request_timeout=TIMEOUT_S)
        waiting = [at for at, answer in answers.items() if answer.exception(TIMEOUT_S) is not None]
        if time.monotonic() > end:
            raise StuckError(f"{waiting[0].topic} and others have no leader {TIMEOUT_S:.0f} s after they were created")


def describe_topics(log: LogSettings) -> list[TopicState]:
    """Return every topic of the catalogue as the cluster has it. Raises LogError."""
    client = admin(log)
    try:
        found = client.list_topics(timeout=TIMEOUT_S).topics
        names = [on_cluster(log, topic.name) for topic in TOPICS.values() if on_cluster(log, topic.name) in found]
        settings = read_settings(client, names)
    except KafkaException as error:
        raise LogError(f"{log.bootstrap}: {error.args[0].str()}; is it the right address, and is it up?") from error
    states = []
    for topic in TOPICS.values():
        name = on_cluster(log, topic.name)
        partitions = found[name].partitions if name in found else {}
        states.append(
            TopicState(
                name=name,
                purpose=topic.purpose,
                records=tuple(record.__name__ for record in topic.records),
                key=topic.key,
                written_by=topic.written_by,
                partitions=len(partitions),
                replication=min((len(p.replicas) for p in partitions.values()), default=0),
                settings={key: settings[name].get(key, "") for key in topic.settings} if name in found else {},
            )
        )
    return states


def read_settings(client: AdminClient, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the settings in force, by topic."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    if not resources:
        return {}
    answers = client.describe_configs(resources, request_timeout=TIMEOUT_S)
    return {
        resource.name: {entry.name: entry.value or "" for entry in future.result(TIMEOUT_S).values()}
        for resource, future in answers.items()
    }


def check_topics(log: LogSettings) -> list[Drift]:
    """Return every difference between the catalogue and the cluster; none is as it should be. Raises LogError."""
    drifts = []
    for topic, state in zip(TOPICS.values(), describe_topics(log), strict=True):
        drifts += compare(topic, state, log)
    return drifts


def compare(topic: Topic, state: TopicState, log: LogSettings) -> list[Drift]:
    """Return how one topic differs from the catalogue."""
    if not state.partitions:
        return [Drift(topic=state.name, setting="exists", wanted="yes", got="no")]
    wanted = {
        "partitions": str(topic.partitions(log.partitions)),
        "replication": str(log.replication),
        **topic.settings,
    }
    got = {"partitions": str(state.partitions), "replication": str(state.replication), **state.settings}
    return [
        Drift(topic=state.name, setting=name, wanted=value, got=got[name] or "not set")
        for name, value in wanted.items()
        if got[name] != value
    ]


def topic_table(states: Iterable[TopicState]) -> Table:
    """Return topics for people."""
    table = Table("topic", "records", "key", "written by", "partitions", "retention", "cleanup", box=None)
    for state in states:
        retention_ms = int(state.settings.get("retention.ms") or 0)
        retention = "for ever" if retention_ms < 0 else f"{retention_ms // DAY_MS} days"
        there = (
            [str(state.partitions), retention, state.settings["cleanup.policy"]] if state.partitions else ["missing"]
        )
        table.add_row(state.name, ", ".join(state.records), state.key, state.written_by, *there)
    return table
