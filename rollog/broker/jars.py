"""Kafka's jars: which ones (`jars.lock`), where they are kept, and that they are what the lock says.

No jar reaches a class path before its bytes were compared with the lock, on every start; the network is asked only for
what is missing or broken.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from schemas.errors import BrokerError

LOCK = Path(__file__).with_name("jars.lock")
DOWNLOADS = 8


class Jar(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the lock."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """Its file name."""
        return f"{self.artifact}-{self.version}.jar"

    def __str__(self) -> str:
        """Return its Maven coordinate."""
        return f"{self.group}:{self.artifact}:{self.version}"


Fetch = Callable[[Jar, Path], Path]
"""Brings a jar, into the folder if it has to go somewhere, and says where it lies."""


def read_lock(lock: Path = LOCK) -> tuple[Jar, ...]:
    """Return the locked jars, in class path order."""
    jars = []
    for line in lock.read_text().splitlines():
        if line and not line.startswith("#"):
            sha256, coordinate = line.split()
            group, artifact, version = coordinate.split(":")
            jars.append(Jar(group=group, artifact=artifact, version=version, sha256=sha256))
    return tuple(jars)


def digest(path: Path) -> str:
    """Return a file's sha256 in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def matches(jar: Jar, path: Path) -> bool:
    """Say whether `path` is that jar, to the byte."""
    return path.is_file() and digest(path) == jar.sha256


def ensure_jars(
    jars: Sequence[Jar], folder: Path, fetch: Fetch, *, say: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """Return the path of every jar in `folder`, verified, fetching what is not there.

    Raises BrokerError where a jar cannot be had, or is not what the lock says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [jar for jar in jars if not matches(jar, folder / jar.name)]
    if missing:
        say(f"fetching Apache Kafka: {len(missing)} of {len(jars)} jars (44 MB in all, once)")
        with tempfile.TemporaryDirectory(dir=folder) as scratch, ThreadPoolExecutor(DOWNLOADS) as pool:
            list(pool.map(lambda jar: bring(jar, folder, Path(scratch), fetch), missing))
    return [folder / jar.name for jar in jars]


def bring(jar: Jar, folder: Path, scratch: Path, fetch: Fetch) -> None:
    """Put one jar into `folder`, whole and verified or not at all."""
    found = fetch(jar, scratch)
    part = scratch / f"{jar.name}.part"
    shutil.copyfile(found, part)
    if (got := digest(part)) != jar.sha256:
        raise BrokerError(
            f"{jar}: got sha256 {got}, wanted {jar.sha256} (jars.lock); it was not "
            "used. The repository that it came from serves another file: check its address in the jgo configuration"
        )
    os.replace(part, folder / jar.name)
