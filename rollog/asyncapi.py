"""The log as an AsyncAPI 3.0 document, made from the catalogue, so that it cannot say anything else.

Values are MessagePack; a payload's schema is that of the record, where bytes stand as base64 text, as JSON Schema has
no bytes. `$ref`s of nested types are moved to `components/schemas`.
"""

from typing import Any

import msgspec

from schemas.codec import CONTENT_TYPE, TYPES
from schemas.config import LogSettings
from schemas.topics import TOPICS, Topic

Tree = dict[str, Any]
VERSION = "1.0.0"
"""Of the catalogue: major where a topic goes or its key or partitioning changes, minor for all that is added."""
BINDING = "0.5.0"
SCHEMA_REF = "#/components/schemas/{name}"
SCHEMA_FORMAT = "application/schema+json;version=draft-2020-12"
ENVELOPE: Tree = {
    "type": "object",
    "required": ["ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time"],
    "properties": {
        "ce_specversion": {"const": "1.0"},
        "ce_id": {"type": "string", "description": "Deterministic: the same fact has the same id; drop repeats."},
        "ce_type": {"type": "string", "description": "rollog.<record>.v<version>"},
        "ce_source": {"type": "string", "description": "Service and instance that wrote it."},
        "ce_time": {"type": "string", "format": "date-time"},
        "ce_subject": {"type": "string"},
        "ce_causationid": {"type": "string", "description": "Event that led to this one."},
        "ce_correlationid": {"type": "string", "description": "Task or run that it belongs to."},
        "traceparent": {"type": "string", "description": "W3C trace context."},
        "content-type": {"const": CONTENT_TYPE.decode()},
    },
}


def asyncapi(log: LogSettings) -> Tree:
    """Return the document for a log; servers only where an address is set, client settings never."""
    records = [record for topic in TOPICS.values() for record in topic.records]
    _, schemas = msgspec.json.schema_components(records, ref_template=SCHEMA_REF)
    document: Tree = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "rollog",
            "version": VERSION,
            "description": "The training log: every fact of reinforcement-learning post-training is one event here.",
        },
        "defaultContentType": CONTENT_TYPE.decode(),
        "channels": {topic.name: channel(topic, log) for topic in TOPICS.values()},
        "operations": operations(),
        "components": {
            "messages": {record.__name__: message(record) for record in records},
            "messageTraits": {"cloudEvent": {"headers": ENVELOPE}},
            "schemas": dict(sorted(schemas.items())),
        },
    }
    if log.bootstrap:
        document["servers"] = {"log": {"host": log.bootstrap, "protocol": "kafka"}}
    return document


def channel(topic: Topic, log: LogSettings) -> Tree:
    """Return one topic."""
    kafka = {
        "topic": log.namespace + topic.name,
        "partitions": topic.partitions(log.partitions),
        "replicas": log.replication,
        "topicConfiguration": {
            "cleanup.policy": [topic.cleanup],
            "retention.ms": topic.retention_ms,
            "retention.bytes": -1,
            "max.message.bytes": topic.max_bytes,
        },
        "bindingVersion": BINDING,
    }
    names = [record.__name__ for record in topic.records]
    return {
        "address": log.namespace + topic.name,
        "title": topic.name,
        "description": f"{topic.purpose} Key: {topic.key}. Written by: {topic.written_by}.",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
        "bindings": {"kafka": kafka},
    }


def message(record: type[Any]) -> Tree:
    """Return one record as a message."""
    return {
        "name": TYPES[record],
        "title": record.__name__,
        "summary": (record.__doc__ or "").partition("\n")[0],
        "contentType": CONTENT_TYPE.decode(),
        "traits": [{"$ref": "#/components/messageTraits/cloudEvent"}],
        "payload": {
            "schemaFormat": SCHEMA_FORMAT,
            "schema": {"$ref": SCHEMA_REF.format(name=record.__name__)},
        },
        "bindings": {"kafka": {"key": {"type": "string"}, "bindingVersion": BINDING}},
    }


def operations() -> Tree:
    """Return what the log is for, from outside: anyone may read every topic; who writes is named."""
    found: Tree = {}
    for topic in TOPICS.values():
        reference = {"$ref": f"#/channels/{topic.name}"}
        title = topic.name.capitalize()
        found[f"read{title}"] = {"action": "receive", "channel": reference, "summary": topic.purpose}
        found[f"write{title}"] = {"action": "send", "channel": reference, "summary": f"By: {topic.written_by}."}
    return found
