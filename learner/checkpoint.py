"""The learner's whole state in one folder, which is there entirely or not at all.

`checkpoints/step-000123/` is a Hugging Face folder, which samplers load, with `optimizer.safetensors` (moments and
random-number state) and `state.json` (offsets, ids seen, events yet to be published, digests) beside the weights. It is
written under another name, synced, and renamed. A folder of that name that lacks a file, or whose bytes are not what
`state.json` says, is an error, never something to start from.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from schemas.errors import CheckpointError, ConfigError
from schemas.ids import digest_of

STATE_FILE, WEIGHTS_FILE = "state.json", "model.safetensors"
FOLDER_NAME = re.compile(r"step-(\d{6,})")
UNFINISHED = ".unfinished-"


class PendingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is due on the log once its checkpoint is durable; always with the same id and content."""

    id: str
    type: str
    source: str
    time_s: float
    key: str
    subject: str
    causation_id: str
    correlation_id: str
    value: bytes
    """The record's MessagePack."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A step that went back to an older version."""

    step: int
    version: int
    rollback_id: str
    """The command that was obeyed so."""


class LearnerState(msgspec.Struct, frozen=True, kw_only=True):
    """What goes with the weights."""

    run_id: str
    policy: str
    step: int
    """Steps taken; also the policy version that these weights are."""
    seed: int
    offsets: dict[int, int]
    """By partition of `batches`: the first offset that was neither trained on nor passed over."""
    seen: tuple[str, ...]
    """Ids of the last batches taken, oldest first."""
    pending: tuple[PendingEvent, ...]
    digests: dict[str, str]
    """sha256 of every other file in the folder."""
    restored: tuple[Restored, ...] = ()
    """Steps that went back, in their order."""


def folder_of(root: Path, step: int) -> Path:
    """Return where the checkpoint of `step` is or would be."""
    return root / f"step-{step:06d}"


def list_steps(root: Path) -> list[int]:
    """Return the steps that have a checkpoint, ascending."""
    if not root.is_dir():
        return []
    matches = (FOLDER_NAME.fullmatch(path.name) for path in root.iterdir())
    return sorted(int(match[1]) for match in matches if match)


def write_checkpoint(root: Path, state: LearnerState, files: Mapping[str, bytes]) -> Path:
    """Make a checkpoint durable and return its folder. Raises CheckpointError.

    1. Every file is written and synced in a folder of another name; what the checkpoint before has in the same bytes is
       linked, since that is durable already. 2. That folder is synced. 3. It is renamed. 4. The parent is synced.
    """
    final = folder_of(root, state.step)
    if final.exists():
        raise CheckpointError(f"{final}: is there already; the learner goes on from the last checkpoint, not before it")
    root.mkdir(parents=True, exist_ok=True)
    building = root / f"{UNFINISHED}{final.name}"
    if building.exists():
        shutil.rmtree(building)
    building.mkdir()
    digests = {name: digest_of(content) for name, content in files.items()}
    earlier = [folder_of(root, step) for step in list_steps(root)[-1:]]
    known = read_state(earlier[0]).digests if earlier else {}
    for name, content in files.items():
        if known.get(name) == digests[name] and try_link(earlier[0] / name, building / name):
            continue
        write_durably(building / name, content)
    state = msgspec.structs.replace(state, digests=digests)
    write_durably(building / STATE_FILE, msgspec.json.encode(state))
    sync_folder(building)
    building.rename(final)
    sync_folder(root)
    return final


def try_link(source: Path, target: Path) -> bool:
    """Return whether the file could be linked; some file systems cannot."""
    try:
        os.link(source, target)
    except OSError:
        return False
    return True


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the folder's names."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_state(folder: Path) -> LearnerState:
    """Return the state that a checkpoint's folder holds. Raises CheckpointError."""
    path = folder / STATE_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=LearnerState)
    except (OSError, msgspec.DecodeError) as error:
        raise CheckpointError(f"{path}: {error}; {remedy(folder)}") from error


def read_file(folder: Path, name: str, state: LearnerState) -> bytes:
    """Return a file of the checkpoint after comparing it with its digest. Raises CheckpointError."""
    path = folder / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: {error}; {remedy(folder)}") from error
    if digest_of(content) != state.digests.get(name):
        raise CheckpointError(
            f"{path}: {len(content)} bytes are {digest_of(content)}, wanted {state.digests.get(name)}; {remedy(folder)}"
        )
    return content


def remedy(folder: Path) -> str:
    """Return what a person can do about a damaged checkpoint."""
    return f"remove {folder} to go on from the checkpoint before it"


def verify_checkpoint(folder: Path) -> LearnerState:
    """Return the state after comparing every file with its digest. Raises CheckpointError."""
    state = read_state(folder)
    for name in state.digests:
        read_file(folder, name, state)
    return state


def prune(root: Path, *, keep_last: int, keep_every: int, also: Collection[int] = ()) -> list[int]:
    """Delete and return what the rule does not keep: the first, the `keep_last` newest, every `keep_every`th.

    `also` are kept whatever the rule says: versions that were restored, which recomputing the step needs.
    """
    steps = list_steps(root)
    kept = {*steps[:1], *steps[-keep_last:], *(s for s in steps if keep_every > 0 and s % keep_every == 0), *also}
    dropped = [step for step in steps if step not in kept]
    for step in dropped:
        # Renamed first: a deletion cut short must not leave half a folder under a checkpoint's name.
        doomed = root / f"{UNFINISHED}{folder_of(root, step).name}"
        folder_of(root, step).rename(doomed)
        shutil.rmtree(doomed)
    return dropped


@contextmanager
def only_learner(root: Path) -> Iterator[None]:
    """Own the run's checkpoints, and clear what a killed learner left unfinished.

    Raises ConfigError where another process owns them; a process that died owns nothing.
    """
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(
                f"{root}: another learner of this run is at work; stop it, or choose another run"
            ) from error
        for path in root.glob(f"{UNFINISHED}*"):
            shutil.rmtree(path)
        yield
