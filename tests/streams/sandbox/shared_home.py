"""Where the root file system of a test session lies: built once, whichever module asks first."""

from pathlib import Path

import pytest


def sandbox_home(factory: pytest.TempPathFactory) -> Path:
    home = factory.getbasetemp() / "sandbox-home"
    home.mkdir(exist_ok=True)
    return home
