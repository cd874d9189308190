"""Each probe of `probes_of_*.py`, run in mount, ipc and process namespaces of their own."""

import ast
from pathlib import Path

import pytest

from tests.streams.sandbox.isolation import run_isolated

PROBES = sorted(Path(__file__).parent.glob("probes_of_*.py"))
NAMES = [
    node.name
    for file in PROBES
    for node in ast.parse(file.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
]


@pytest.fixture(scope="module")
def results(home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return run_isolated(PROBES, tmp_path_factory.mktemp("probes"), environment={"PROBE_HOME": str(home)})


@pytest.mark.parametrize("name", NAMES)
def test_probe(name: str, results: dict[str, str]) -> None:
    outcome = results[name]
    if outcome.startswith("skipped"):
        pytest.skip(outcome)
    assert not outcome, outcome
