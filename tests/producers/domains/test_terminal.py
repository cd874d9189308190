"""Machines of the terminal's tasks, looked at with the programs that are on this one."""

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from producers.domains.terminal.build import FAULTS, draw_project
from producers.domains.terminal.builder import BUILDER
from producers.domains.terminal.checker import CHECKER
from producers.domains.terminal.git_stories import STORIES
from producers.domains.terminal.logs import terminal_logs
from producers.domains.terminal.settings import draw_faults, draw_service, put
from producers.domains.terminal.traces import terminal_find_error

NEEDS_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="this host has no git")


def lay(root: Path, files: Mapping[str, str | bytes]) -> None:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)


@NEEDS_GIT
@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("level", [0, 3])
def test_git_finds_a_made_repository_sound_and_its_commits_by_the_names_that_were_told(
    tmp_path: Path, story: object, level: int
) -> None:
    assert callable(story)
    told = story(random.Random(level), level)
    lay(tmp_path, told.repository.files(with_log=told.with_log))
    assert run(tmp_path, "git", "read-tree", "HEAD").returncode == 0
    assert run(tmp_path, "git", "fsck", "--strict", "--full").returncode == 0
    assert run(tmp_path, "git", "status", "--porcelain").stdout == ""
    for branch, commit in told.repository.branches.items():
        assert run(tmp_path, "git", "rev-parse", branch).stdout.strip() == commit
    for commit, files in told.repository.trees.items():
        listed = run(tmp_path, "git", "ls-tree", "-r", "--name-only", commit).stdout.split()
        assert sorted(listed) == sorted(files)


def test_answers_about_logs_follow_from_what_the_files_say() -> None:
    for seed in range(12):
        item = terminal_logs(random.Random(seed), 0)
        assert item.execution is not None
        answer = msgspec.json.decode(item.gold[-1])
        lines = [line for path, text in item.execution.files.items() if path.endswith(".log")
                 for line in text.decode().splitlines()]  # fmt: skip
        fields = [re.fullmatch(r'(\S+) .*?"(\S+) (\S+) .*?" (\d+) (\d+) "(\S+)" (\d+)ms', line) for line in lines]
        rows = [field.groups() for field in fields if field is not None]
        assert len(rows) == len(lines)
        again = {
            "server_errors": sum(row[3].startswith("5") for row in rows),
            "clients": len({row[0] for row in rows}),
            "api_bytes": sum(int(row[4]) for row in rows if row[2].startswith("/api/")),
            "posts_by_curl": sum(row[1] == "POST" and row[5].startswith("curl") for row in rows),
            "slowest_ms": max((int(row[6]) for row in rows if row[3] == "200"), default=None),
        }
        assert answer == answer | {key: value for key, value in again.items() if key in answer}


def test_the_line_that_is_named_holds_the_failure_of_that_request() -> None:
    for seed in range(12):
        item = terminal_find_error(random.Random(seed), seed % 4)
        assert item.execution is not None
        answer = msgspec.json.decode(item.gold[-1])
        request = re.search(r"request (r-\w+)", item.prompt)
        assert request is not None
        line = item.execution.files[f"logs/{answer['service']}.log"].decode().splitlines()[answer["line"] - 1]
        assert f"ERROR [{request[1]}] {answer['code']}:" in line


def test_the_checker_accepts_right_settings_and_refuses_what_it_says(tmp_path: Path) -> None:
    for seed in range(4):
        config, papers = draw_service(random.Random(seed))
        path = f"{config['name']}.json"
        lay(tmp_path, {"check.py": CHECKER, path: msgspec.json.encode(config), **papers})
        assert run(tmp_path, sys.executable, "check.py", path).stdout == "accepted\n"
        put(config, ("port",), "8080")
        lay(tmp_path, {path: msgspec.json.encode(config)})
        assert "port is no number" in run(tmp_path, sys.executable, "check.py", path).stderr


def test_every_fault_of_settings_changes_them() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        config, _ = draw_service(rng)
        for path, spoil in draw_faults(rng, 5):
            before = msgspec.json.encode(config)
            put(config, path, spoil(rng, config))
            assert msgspec.json.encode(config) != before


def test_a_project_builds_what_was_told_and_every_fault_stops_it_at_its_stage(tmp_path: Path) -> None:
    project = draw_project(random.Random(5))
    files = project.files | {"build.py": BUILDER}
    lay(tmp_path / "whole", files)
    assert run(tmp_path / "whole", sys.executable, "build.py").stdout == "build went through\n"
    for path, text in project.outputs.items():
        assert (tmp_path / "whole" / path).read_text() == text
    faults = [make(project) for makes in FAULTS for make in makes]
    for number, fault in enumerate(faults):
        root = tmp_path / str(number)
        spoiled = files | {fault.path: fault.text}
        if fault.moved_to:
            spoiled[fault.moved_to] = spoiled.pop(fault.path)
        lay(root, spoiled)
        assert run(root, sys.executable, "build.py").returncode != 0
        made = [path for path in project.outputs if (root / path).exists()]
        assert made == list(project.outputs)[: fault.stage - 1]
