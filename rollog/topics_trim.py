"""Taking records off the log for good, and who on the cluster may still want them."""

from collections.abc import Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from consumers.offsets import At
from rollog.topics import TIMEOUT_S, admin
from schemas.config import LogSettings
from schemas.connection import in_catalogue, on_cluster
from schemas.errors import LogError


def committed_offsets(log: LogSettings) -> dict[str, dict[At, int]]:
    """Return what each group of the namespace has committed on its topics, by group. Raises LogError."""
    client = admin(log)
    try:
        groups = client.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S).valid
        names = sorted(group.group_id for group in groups if group.group_id.startswith(log.namespace))
        found: dict[str, dict[At, int]] = {}
        for name in names:
            asked = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)], request_timeout=TIMEOUT_S)
            partitions = asked[name].result(TIMEOUT_S).topic_partitions
            found[name] = {
                (in_catalogue(log, at.topic), at.partition): at.offset
                for at in partitions
                if at.topic.startswith(log.namespace) and at.offset >= 0
            }
    except KafkaException as error:
        raise LogError(f"{log.bootstrap}: no answer about consumer groups: {error.args[0].str()}") from error
    return found


def trim(log: LogSettings, before: Mapping[At, int]) -> None:
    """Delete every record before these offsets; there is no way back. Raises LogError."""
    client = admin(log)
    asked = [TopicPartition(on_cluster(log, topic), p, offset) for (topic, p), offset in before.items()]
    try:
        for at, future in client.delete_records(asked, request_timeout=TIMEOUT_S).items():
            low = future.result(TIMEOUT_S).low_watermark
            if low < at.offset:
                raise LogError(f"{at.topic}[{at.partition}]: trimmed to {low}, wanted {at.offset}; do it again")
    except KafkaException as error:
        raise LogError(f"{log.bootstrap}: the log could not be trimmed: {error.args[0].str()}; do it again") from error
