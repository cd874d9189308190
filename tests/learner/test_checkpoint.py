import os
from pathlib import Path

import pytest

from learner.checkpoint import (
    LearnerState,
    PendingEvent,
    folder_of,
    list_steps,
    only_learner,
    prune,
    read_file,
    read_state,
    verify_checkpoint,
    write_checkpoint,
)
from schemas.errors import CheckpointError, ConfigError

FILES = {"model.safetensors": b"weights", "config.json": b"{}"}


def state(step: int) -> LearnerState:
    pending = PendingEvent(
        id="a",
        type="t",
        source="s",
        time_s=1.5,
        key="k",
        subject="",
        causation_id="",
        correlation_id="",
        value=b"\xff\0",
    )
    return LearnerState(
        run_id="run",
        policy="policy",
        step=step,
        seed=3,
        offsets={0: 4, 5: 1},
        seen=("x", "y"),
        pending=(pending,),
        digests={},
    )


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, state(7), FILES)
    assert folder.name == "step-000007"
    found = verify_checkpoint(folder)
    assert (found.offsets, found.seen, found.pending) == (state(7).offsets, state(7).seen, state(7).pending)
    assert {name: read_file(folder, name, found) for name in found.digests} == FILES


def test_what_is_unfinished_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="no space"):
        write_checkpoint(tmp_path, state(1), FILES)
    monkeypatch.undo()
    assert list_steps(tmp_path) == []
    assert [p.name for p in tmp_path.iterdir()] == [".unfinished-step-000001"]
    with only_learner(tmp_path):
        assert not list(tmp_path.glob(".unfinished*"))
    assert write_checkpoint(tmp_path, state(1), FILES).is_dir()


def test_everything_is_synced_before_the_rename_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def noted_fsync(descriptor: int) -> None:
        log.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def noted_rename(self: Path, target: Path) -> Path:
        log.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    write_checkpoint(tmp_path, state(1), FILES)
    assert log == [*FILES, "state.json", ".unfinished-step-000001", "rename", tmp_path.name]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "state.json"])
def test_a_torn_checkpoint_is_an_error_that_names_the_file(tmp_path: Path, name: str, damage: str) -> None:
    folder = write_checkpoint(tmp_path, state(1), FILES)
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if damage == "truncated":
        path.write_bytes(content[:-1])
    if damage == "flipped":
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(CheckpointError, match=f"{name}.*remove .*step-000001"):
        verify_checkpoint(folder)


def test_a_checkpoint_is_never_written_over(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, state(1), FILES)
    with pytest.raises(CheckpointError, match="is there already"):
        write_checkpoint(tmp_path, state(1), FILES)


def test_equal_files_are_shared_and_survive_the_older_checkpoint(tmp_path: Path) -> None:
    first = write_checkpoint(tmp_path, state(1), FILES)
    second = write_checkpoint(tmp_path, state(2), FILES | {"model.safetensors": b"others"})
    assert (first / "config.json").samefile(second / "config.json")
    assert not (first / "model.safetensors").samefile(second / "model.safetensors")
    write_checkpoint(tmp_path, state(3), FILES)
    assert prune(tmp_path, keep_last=1, keep_every=0) == [2]
    assert verify_checkpoint(folder_of(tmp_path, 3)).step == 3


def test_the_first_the_newest_and_every_nth_are_kept(tmp_path: Path) -> None:
    for step in range(12):
        write_checkpoint(tmp_path, state(step), FILES)
    assert prune(tmp_path, keep_last=2, keep_every=4) == [1, 2, 3, 5, 6, 7, 9]
    assert list_steps(tmp_path) == [0, 4, 8, 10, 11]
    assert prune(tmp_path, keep_last=2, keep_every=4) == []


def test_a_deletion_cut_short_leaves_no_half_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in range(4):
        write_checkpoint(tmp_path, state(step), FILES)

    def cut_short(path: Path) -> None:
        (path / "model.safetensors").unlink()
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr("learner.checkpoint.shutil.rmtree", cut_short)
        with pytest.raises(OSError, match="killed"):
            prune(tmp_path, keep_last=1, keep_every=0)
    for step in list_steps(tmp_path):
        verify_checkpoint(folder_of(tmp_path, step))


def test_two_learners_of_one_run_are_refused(tmp_path: Path) -> None:
    with only_learner(tmp_path), pytest.raises(ConfigError, match="another learner"), only_learner(tmp_path):
        pass
    with only_learner(tmp_path):
        pass


def test_a_state_that_is_no_state_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"run_id": 5}')
    with pytest.raises(CheckpointError, match=r"state\.json"):
        read_state(tmp_path)
