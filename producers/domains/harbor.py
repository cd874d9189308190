"""Harbor's task folders as items: instruction.md, task.toml, environment/, tests/test.sh, maybe solution/solve.sh.

The policy works in `/app` with a shell. Once it is done, or out of turns, the tests are laid beside a copy of what it
left, which it never sees, and what `test.sh` writes to `/logs/verifier/reward.txt` is the reward. The sandbox has no
images: a folder whose Dockerfile does more than name one, set `/app` and variables, and copy files, is passed over.

Format: https://www.harborframework.com/docs/tasks
"""

import hashlib
import logging
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from producers.domains.interface import Item
from producers.domains.tools import BASH, machine_tools, with_tools
from schemas.errors import ConfigError
from schemas.executions import Case
from schemas.parts import Part
from schemas.tasks import ExecutionSpec, VerifierSpec
from schemas.tools import written

log = logging.getLogger(__name__)
WORK = "/app"
DIFFICULTIES = ("easy", "medium", "hard")
HARMLESS = ("FROM", "ENV", "LABEL", "CMD", "ENTRYPOINT", "ARG", "USER", "EXPOSE")
MAX_TURNS = 40
MOST_FILE_BYTES = 256 << 10
CHECK = """mkdir -p /logs/verifier && cp -R {hidden}/. /tests/ && rm -rf {hidden}
(cd {work} && PYTHONNOUSERSITE=1 exec bash /tests/test.sh) > /logs/output.txt 2>&1
tail -n 20 /logs/output.txt
echo
cat /logs/verifier/reward.txt 2>/dev/null || echo none"""


class NeedsImageError(Exception):
    """The folder's environment is one that only a container can be."""


def read_folders(root: Path) -> Iterator[tuple[int, Item]]:
    """Yield every task below `root` that can be played here, with its level. Raises ConfigError where none can."""
    folders = sorted(path.parent for path in root.glob("**/instruction.md"))
    found, refused = [], []
    for folder in folders:
        try:
            found.append(read_folder(folder))
        except NeedsImageError as error:
            log.warning("%s is passed over: %s", folder, error)
            refused.append(folder)
    if not found:
        raise ConfigError(
            f"{root}: {len(folders)} Harbor tasks, {len(refused)} of which need an image; wanted some without"
        )
    levels = sorted({difficulty for difficulty, _ in found})
    return ((levels.index(difficulty), item) for difficulty, item in found)


def read_folder(folder: Path) -> tuple[int, Item]:
    """Return one task with its difficulty. Raises NeedsImageError, or ConfigError for what is no such folder."""
    try:
        settings = tomllib.loads((folder / "task.toml").read_text())
        instruction = (folder / "instruction.md").read_text()
        hidden = files_of(folder / "tests")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder}: {error}; wanted Harbor's task.toml, instruction.md and tests/") from error
    if "test.sh" not in hidden:
        raise ConfigError(f"{folder}: tests/ has {', '.join(hidden) or 'nothing'}; wanted test.sh")
    name = settings.get("metadata", {}).get("difficulty", "easy")
    execution = machine_tools(BASH, files=environment_of(folder))
    limits = float(settings.get("verifier", {}).get("timeout_sec", 60.0))
    execution = with_check(execution, hidden, wall_s=min(limits, 120.0))
    solution = folder / "solution" / "solve.sh"
    gold = (written("bash", command=solution.read_text()),) if solution.exists() else ()
    item = Item(
        prompt=with_tools(f"{instruction.rstrip()}\n\nThe working directory is {WORK}.", execution),
        gold=(*gold, "Done."),
        verifier=VerifierSpec(kind="parts", parts=(Part(kind="reported", of="cases"),)),
        execution=execution,
        max_turns=MAX_TURNS,
    )
    return DIFFICULTIES.index(name) if name in DIFFICULTIES else 0, item


def with_check(execution: ExecutionSpec, hidden: dict[str, bytes], *, wall_s: float) -> ExecutionSpec:
    """Return the execution with the tests, under a name that nobody can guess who does not have them."""
    digest = hashlib.sha256(b"".join(name.encode() + content for name, content in hidden.items())).hexdigest()
    files = {f".{digest}/{name}": content for name, content in hidden.items()}
    case = Case(name="tests", epilogue=CHECK.format(hidden=f".{digest}", work=WORK), files=files)
    limits = msgspec.structs.replace(execution.limits, wall_s=wall_s, cpu_s=wall_s)
    return msgspec.structs.replace(execution, cases=(case,), limits=limits)


def environment_of(folder: Path) -> dict[str, bytes]:
    """Return the files that the Dockerfile copies into the working directory. Raises NeedsImageError."""
    context = folder / "environment"
    dockerfile = context / "Dockerfile"
    if not dockerfile.exists():
        return files_of(context) if context.is_dir() else {}
    found: dict[str, bytes] = {}
    for line in dockerfile.read_text().replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#") or word.upper() in HARMLESS:
            continue
        if word.upper() == "WORKDIR" and rest.strip().rstrip("/") == WORK:
            continue
        if word.upper() in {"COPY", "ADD"}:
            found |= copied(context, shlex.split(rest))
            continue
        raise NeedsImageError(f"its Dockerfile says {line.strip()!r:.80}")
    return found


def copied(context: Path, words: list[str]) -> dict[str, bytes]:
    """Return what a COPY brings into the working directory, by path there."""
    *sources, target = (word for word in words if not word.startswith("--"))
    into = target.removeprefix(WORK).removeprefix("./").strip("/").removeprefix(".")
    if target.startswith("/") and not target.startswith(WORK):
        raise NeedsImageError(f"its Dockerfile copies to {target}")
    found: dict[str, bytes] = {}
    for source in sources:
        path = context / source
        if path.is_dir():
            found |= {"/".join(filter(None, (into, name))): content for name, content in files_of(path).items()}
        else:
            is_folder = target.endswith("/") or not into or len(sources) > 1
            found["/".join(filter(None, (into, path.name))) if is_folder else into] = path.read_bytes()
    return found


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by relative path. Raises NeedsImageError for those that no event should hold."""
    found: dict[str, bytes] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.stat().st_size > MOST_FILE_BYTES:
            raise NeedsImageError(
                f"{path.name} has {path.stat().st_size} bytes; at most {MOST_FILE_BYTES} go into a task"
            )
        found[str(path.relative_to(folder))] = path.read_bytes()
    return found
