"""What tests share: one real broker per session, and a topic prefix of one's own per test."""

import uuid
from collections.abc import Iterator

import pytest

from rollog.broker.server import EmbeddedBroker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap string of a real broker that lives as long as the session, on a directory of its own."""
    with EmbeddedBroker(tmp_path_factory.mktemp("broker") / "data") as started:
        yield started.bootstrap


@pytest.fixture
def namespace() -> str:
    """A prefix for topics and groups that no other test has."""
    return f"t{uuid.uuid4().hex[:12]}."
