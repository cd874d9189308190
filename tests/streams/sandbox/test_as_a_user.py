"""The contract once more, as a user without privileges: root has cgroups and user ids to give, a user has neither."""

import os
from pathlib import Path

import pytest

from tests.streams.sandbox.isolation import ROOT, run_as_user


@pytest.mark.skipif(os.geteuid() != 0, reason="all tests of the contract run as a user already")
def test_the_contract_holds_for_a_user_without_privileges(tmp_path: Path) -> None:
    results = run_as_user(ROOT / "tests/contracts/test_sandbox_contract.py", tmp_path)
    assert {name: problem for name, problem in results.items() if problem} == {}
    assert sum("unsafe-subprocess" in name for name in results) > 10
