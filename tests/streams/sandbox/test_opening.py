"""The door: no backend but the one that was named, and nothing unsafe by accident. And the fake's script."""

import os
from pathlib import Path

import pytest

from schemas.errors import ConfigError, SandboxError
from schemas.executions import Action, Outcome
from streams.sandbox import FakeSandbox, open_sandbox, unsafe


def test_an_unknown_backend_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="bubblewrap"):
        open_sandbox("docker-in-docker", num_slots=1, home=tmp_path)
    with pytest.raises(ConfigError, match="num_slots"):
        open_sandbox("fake", num_slots=0, home=tmp_path)


def test_unsafe_needs_to_be_allowed_and_is_never_for_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsafe.os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigError, match="allow_unsafe"):
        open_sandbox("unsafe-subprocess", num_slots=1, home=tmp_path)
    open_sandbox("unsafe-subprocess", num_slots=1, home=tmp_path, allow_unsafe=True).close()
    monkeypatch.setattr(unsafe.os, "geteuid", lambda: 0)
    with pytest.raises(ConfigError, match="never runs as root"):
        open_sandbox("unsafe-subprocess", num_slots=1, home=tmp_path, allow_unsafe=True)
    assert os.listdir(tmp_path) == []


def test_a_fake_answers_by_code_or_by_function_and_remembers() -> None:
    three = Outcome(status="nonzero", exit_code=3)
    by_code = FakeSandbox({"a": three})
    assert (by_code.run(Action(code="a")).exit_code, by_code.run(Action(code="a")).isolation) == (3, "fake")
    with pytest.raises(SandboxError, match="no answer for 'b'"):
        by_code.run(Action(code="b"))
    by_function = FakeSandbox(lambda action: Outcome(status="ok", stdout=action.code.encode()))
    assert by_function.run(Action(code="xyz")).stdout == b"xyz"
    assert [action.code for action in by_function.actions] == ["xyz"]
    assert FakeSandbox().run(Action(code="anything")).status == "ok"
