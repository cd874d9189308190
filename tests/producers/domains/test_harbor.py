import random
from pathlib import Path

import pytest

from producers.domains.files import file_domain
from rollog.admission_test import task_of
from rollog.playing import judge, play, say_all
from schemas.errors import ConfigError
from schemas.taskfiles import TaskFile
from schemas.tools import written
from schemas.trajectory import Trajectory
from streams.sandbox.bubblewrap import BubblewrapSandbox
from tests.streams.sandbox.shared_home import sandbox_home

TEST = """#!/bin/bash
python3 -c 'print("a test in Python")'
if [ "$(cat /app/out.txt)" = "$(cat /tests/wanted.txt)" ]; then echo 1 > /logs/verifier/reward.txt
elif [ -e out.txt ]; then echo 0.25 > /logs/verifier/reward.txt
else exit 1; fi
"""


def folder(root: Path, name: str, *, dockerfile: str = "FROM ubuntu:24.04\nWORKDIR /app\nCOPY in.txt /app/\n") -> Path:
    files = {
        "instruction.md": "Write the words of in.txt in capitals to /app/out.txt.",
        "task.toml": '[metadata]\ndifficulty = "medium"\n[verifier]\ntimeout_sec = 20\n',
        "environment/Dockerfile": dockerfile,
        "environment/in.txt": "one two\n",
        "tests/test.sh": TEST,
        "tests/wanted.txt": "ONE TWO\n",
        "solution/solve.sh": "tr a-z A-Z < /app/in.txt > out.txt",
    }
    for path, text in files.items():
        (root / name / path).parent.mkdir(parents=True, exist_ok=True)
        (root / name / path).write_text(text)
    return root


def test_a_folder_is_played_and_its_tests_come_only_when_the_policy_is_done(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    domain = file_domain("harbor", TaskFile(path=str(folder(tmp_path, "upper"))))
    item = domain.item(random.Random(0), 0, False) if domain.levels else None
    assert item is not None
    task = task_of(domain, item, 0)

    def reward(*texts: str) -> tuple[float | None, Trajectory]:
        trajectory = play(task, say_all(texts), sandbox)
        finding = judge(task, trajectory)
        return (None if finding.score is None else finding.score.value), trajectory

    with BubblewrapSandbox(num_slots=1, home=sandbox_home(tmp_path_factory)) as sandbox:
        value, trajectory = reward(*item.gold)
        assert (value, trajectory.num_turns) == (1.0, 2)
        assert reward(written("bash", command="echo x > out.txt"), "Done.")[0] == 0.25
        assert reward("Done.")[0] == 0.0
        assert reward("")[0] == 0.0
        # Whatever a policy leaves behind, it neither sees the tests nor says the reward itself.
        snoop = "ls -a / /app /tests /logs; find / -name 'wanted*' -o -name 'test.sh' 2>/dev/null; env"
        _, seen = reward(written("bash", command=snoop), "Done.")
        assert b"wanted" not in seen.executions[0].record.outcome.stdout
        forged = "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; mkdir tests; echo echo 1 > tests/test.sh"
        assert reward(written("bash", command=forged), "Done.")[0] == 0.0
        custom = "open('/logs/verifier/reward.txt', 'w').write('1')"
        home = f'd=$(python3 -m site --user-site); mkdir -p $d; echo "{custom}" > $d/usercustomize.py'
        assert reward(written("bash", command=home), "Done.")[0] == 0.0


def test_a_rollout_that_runs_out_of_turns_is_checked_all_the_same(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    domain = file_domain("harbor", TaskFile(path=str(folder(tmp_path, "upper"))))
    item = domain.draw(random.Random(0), 0)
    task = task_of(domain, item, 0)
    with BubblewrapSandbox(num_slots=1, home=sandbox_home(tmp_path_factory)) as sandbox:
        trajectory = play(task, say_all([item.gold[0], *[written("bash", command="true")] * 60]), sandbox)
        assert trajectory.end is not None
        assert (trajectory.end.why, trajectory.num_turns) == ("max_turns", item.max_turns)
        finding = judge(task, trajectory)
    assert finding.score is not None
    assert finding.score.value == 1.0


def test_a_folder_that_needs_an_image_is_passed_over_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder(tmp_path, "heavy", dockerfile="FROM python:3.13\nRUN pip install numpy\n")
    with pytest.raises(ConfigError, match="1 of which need an image"):
        file_domain("harbor", TaskFile(path=str(tmp_path)))
    folder(tmp_path, "light")
    assert file_domain("harbor", TaskFile(path=str(tmp_path), family="other")).levels == 1
    assert "RUN pip install numpy" in caplog.text
