"""What tests of the sandbox share: one root file system for the session, and a pool on it per module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.sandbox.bubblewrap import BubblewrapSandbox
from streams.sandbox.enforcement import Enforcement
from tests.streams.sandbox.shared_home import sandbox_home


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sandbox_home(tmp_path_factory)


@pytest.fixture(scope="module")
def sandbox(home: Path) -> Iterator[BubblewrapSandbox]:
    with BubblewrapSandbox(num_slots=2, home=home) as opened:
        yield opened


@pytest.fixture(scope="module")
def sandbox_without_cgroups(home: Path) -> Iterator[BubblewrapSandbox]:
    with BubblewrapSandbox(num_slots=1, home=home, enforcement=Enforcement(use_cgroups=False)) as opened:
        yield opened
