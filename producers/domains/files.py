"""Tasks of one's own: rows of a file, or Harbor's task folders, as a domain like any other.

A row has what is asked and what is right, under the names that the settings say; further fields are those of `Item`
(`verifier`, `execution`, `max_turns`, `partials`, `wrongs`), in the form that `rollog domains show --json` prints. The
file is read whole, and must not change while it is trained on: a task is a place in it.
"""

import math
import random
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from producers.domains.harbor import read_folders
from producers.domains.interface import Domain, Item
from schemas.errors import ConfigError
from schemas.parts import Part
from schemas.taskfiles import TaskFile
from schemas.tasks import VerifierSpec, check_execution

OF_ITEM = ("verifier", "execution", "max_turns", "partials", "wrongs")


@lru_cache(maxsize=64)
def file_domain(name: str, file: TaskFile) -> Domain:
    """Return the domain that a file is. Raises ConfigError, with the line, where it is not what the settings say."""
    by_level: dict[int, list[Item]] = {}
    for level, item in read(file):
        by_level.setdefault(level, []).append(item)
    if sorted(by_level) != list(range(len(by_level))) or not by_level:
        raise ConfigError(
            f"{file.path}: levels are {sorted(by_level)}; wanted 0, 1, 2, ... and at least one task of each"
        )

    def draw(rng: random.Random, level: int) -> Item:
        return rng.choice(by_level[level])

    return Domain(
        name=name,
        family=file.family,
        tier="file",
        draw=draw,
        levels=len(by_level),
        max_tokens=file.max_tokens,
        source=file.path,
        summary=f"{sum(map(len, by_level.values()))} tasks of {file.path}",
    )


def read(file: TaskFile) -> Iterator[tuple[int, Item]]:
    """Yield each task with its level."""
    path = Path(file.path)
    if not path.exists():
        raise ConfigError(f"tasks.files: {path} does not exist (working directory {Path.cwd()})")
    if path.is_dir():
        yield from read_folders(path)
        return
    rows = read_parquet(path) if path.suffix == ".parquet" else read_lines(path)
    for where, row in rows:
        try:
            yield int(row.get(file.level, 0)), item_of(row, file)
        except (KeyError, TypeError, ValueError) as error:
            what = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
            raise ConfigError(f"{where}: {what}; has {', '.join(row)}") from error


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row of JSON lines, with where it stands."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield f"{path}:{number}", msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.MsgspecError as error:
                raise ConfigError(f"{path}:{number}: {error}; wanted a JSON object a line") from error


def read_parquet(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row of a Parquet file, with where it stands."""
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError as error:
        raise ConfigError(f"{path}: Parquet needs the extra `analysis`: pip install 'rollog[analysis]'") from error
    try:
        batches = parquet.ParquetFile(path).iter_batches(batch_size=1024)
        rows = (row for batch in batches for row in batch.to_pylist())
        for number, row in enumerate(rows):
            yield f"{path}: row {number}", {field: value for field, value in row.items() if value is not None}
    except ArrowInvalid as error:
        raise ConfigError(f"{path}: {error}") from error


def number_in(gold: object) -> float:
    """Return the number that is right, also where it stands behind how it was found, as in GSM8K: `... #### 1,200`."""
    return float(str(gold).rpartition("####")[2].replace(",", ""))


def item_of(row: dict[str, Any], file: TaskFile) -> Item:
    """Return a row's item."""
    gold = row[file.gold]
    turns = tuple(gold) if isinstance(gold, list) else (str(gold),)
    own = {field: row[field] for field in OF_ITEM if field in row}
    item = msgspec.convert({"prompt": "", "gold": turns, "verifier": {"kind": "parts"}} | own, Item, strict=False)
    item = msgspec.structs.replace(item, prompt=str(row[file.prompt]) + file.instruction)
    if item.execution is not None:
        check_execution(item.execution)
    if "verifier" in own:
        return item
    expected = number_in(gold) if file.kind == "numeric" else str(gold)
    if isinstance(expected, float) and not math.isfinite(expected):
        raise ValueError(f"{file.gold} {gold!r} is no number")
    part = Part(kind=file.kind, extract=file.extract, expected=expected)
    return msgspec.structs.replace(item, verifier=VerifierSpec(kind="parts", parts=(part,)))
