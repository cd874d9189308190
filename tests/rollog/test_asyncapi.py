from collections.abc import Iterator
from typing import Any

import msgspec

from rollog.asyncapi import asyncapi
from schemas.codec import TYPES
from schemas.config import LogSettings
from schemas.topics import TOPICS

LOG = LogSettings(bootstrap="broker:9092", namespace="demo.", client={"sasl.password": "hunter2"})


def resolve(document: Any, reference: str) -> Any:
    assert reference.startswith("#/")
    for name in reference.removeprefix("#/").split("/"):
        document = document[name]
    return document


def references(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        if isinstance(tree.get("$ref"), str):
            yield tree["$ref"]
        for value in tree.values():
            yield from references(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from references(value)


def test_the_document_has_what_asyncapi_3_requires() -> None:
    document = asyncapi(LOG)

    assert document["asyncapi"] == "3.0.0"
    assert document["info"]["title"]
    assert document["info"]["version"]
    assert set(document) <= {
        "asyncapi",
        "id",
        "info",
        "servers",
        "defaultContentType",
        "channels",
        "operations",
        "components",
    }
    for operation in document["operations"].values():
        assert operation["action"] in ("send", "receive")
        assert resolve(document, operation["channel"]["$ref"])["address"]
    for server in document["servers"].values():
        assert server["host"]
        assert server["protocol"] == "kafka"


def test_every_reference_leads_somewhere() -> None:
    document = asyncapi(LOG)

    found = list(references(document))

    assert len(found) > len(TOPICS)
    for reference in found:
        assert resolve(document, reference)


def test_every_topic_is_a_channel_with_the_clusters_name_and_settings() -> None:
    document = asyncapi(LOG)

    assert {channel["address"] for channel in document["channels"].values()} == {f"demo.{name}" for name in TOPICS}
    batches = document["channels"]["batches"]["bindings"]["kafka"]
    assert batches["partitions"] == LOG.partitions
    assert batches["topicConfiguration"]["retention.ms"] == TOPICS["batches"].retention_ms
    assert document["channels"]["steps"]["bindings"]["kafka"]["partitions"] == 1


def test_every_record_is_a_message_whose_schema_has_its_fields() -> None:
    document = asyncapi(LOG)

    for record, type_name in TYPES.items():
        message = document["components"]["messages"][record.__name__]
        assert message["name"] == type_name
        schema = resolve(document, message["payload"]["schema"]["$ref"])
        assert set(schema["properties"]) == {field.encode_name for field in msgspec.structs.fields(record)}


def test_client_settings_are_not_in_the_document() -> None:
    assert "hunter2" not in str(asyncapi(LOG))


def test_a_log_without_an_address_has_no_servers() -> None:
    assert "servers" not in asyncapi(LogSettings())
