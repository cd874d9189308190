"""What a record says, in the one form that its digest is over.

Fields that have their default are left out, so that a field that came last does not change the digest of what was
written before it. A default that changes its meaning therefore takes a new version of the record (schemas/upcasts.py).
"""

from functools import lru_cache
from typing import Any

import msgspec

from schemas.ids import digest_of

ENCODER = msgspec.msgpack.Encoder()
LISTS = (list, tuple)


def record_digest(record: object) -> str:
    """Return the digest of a record's content, independent of its envelope and of fields that came later."""
    return digest_of(ENCODER.encode(content_of(record)))


def content_of(value: Any) -> Any:
    """Return the value with every record in it as a map of what differs from its default."""
    if isinstance(value, str):
        return value
    if isinstance(value, msgspec.Struct):
        tag, fields = fields_of(type(value))
        found = {name: content_of(got) for name, default in fields if (got := getattr(value, name)) != default}
        return {"type": tag, **found} if tag is not None else found
    if isinstance(value, LISTS):
        return [content_of(one) for one in value]
    if isinstance(value, dict):
        return {key: content_of(one) for key, one in value.items()}
    return value


@lru_cache(maxsize=256)
def fields_of(record: type[msgspec.Struct]) -> tuple[str | int | None, tuple[tuple[str, Any], ...]]:
    """Return the tag that tells the record from others in its place, and its fields with their defaults."""
    fields = tuple((field.encode_name, default_of(field)) for field in msgspec.structs.fields(record))
    return record.__struct_config__.tag, fields


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    """Return a field's default; what equals nothing where it has none."""
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else msgspec.NODEFAULT
