"""What every broker on this host shares, made once: verified jars, a JVM archive, a formatted empty data directory."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from rollog.broker import jars
from rollog.broker.directory import BrokerDirectory, Record, choose_port, new_id
from rollog.broker.fetching import fetch_jar
from rollog.broker.java import Java, find_java
from rollog.broker.launch import launch, write_files
from rollog.broker.readiness import await_ready
from rollog.resolve import home_dir
from schemas.errors import BrokerError

FORMAT_S = 120.0
STOP_S = 120.0

Say = Callable[[str], None]


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """A JVM for Kafka with what makes it start fast."""

    java: Java
    archive: Path
    """The JVM's cache of loaded classes, made by a first run of the broker. Without it a start takes three times as
    long; a JVM that finds it missing or made for other files goes on without."""
    template: Path
    """An empty formatted data directory, without its ids."""


def prepare(home: Path | None = None, *, fetch: jars.Fetch = fetch_jar, say: Say = lambda _: None) -> Runtime:
    """Return the runtime kept below `home` (ROLLOG_HOME by default), making it if it is not there.

    Needs the network the first time only. Raises BrokerError where it cannot be made.
    """
    folder = home_dir(home) / "broker"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "prepare.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        java = find_java(jars.ensure_jars(jars.read_lock(), folder / "jars", fetch, say=say))
        made = folder / f"made-{fingerprint(java)}"
        if not made.exists():
            say("preparing the broker for fast starts (once)")
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                make(java, Path(scratch))
                os.replace(Path(scratch) / "made", made)
    return Runtime(java=java, archive=made / "kafka.aot", template=made / "kafka")


def fingerprint(java: Java) -> str:
    """Return a name for what archive and template depend on: a JVM (not where it lies), jars, and where they lie."""
    facts = (java.version, *java.command("")[1:], jars.LOCK.read_text())
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def make(java: Java, scratch: Path) -> None:
    """Format an empty directory, run a broker on a copy of it until it answers, and keep what its JVM recorded."""
    made, trial = scratch / "made", BrokerDirectory(scratch / "trial")
    made.mkdir()
    trial.path.mkdir()
    port = choose_port()
    record = Record(port=port, controller_port=choose_port(taken=port), cluster_id=new_id())
    write_files(trial, record)
    tool = "kafka.tools.StorageTool"
    command = java.command(tool, "format", "--cluster-id", record.cluster_id, "--config", trial.properties.name)
    done = subprocess.run(command, cwd=trial.path, capture_output=True, text=True, timeout=FORMAT_S, check=False)
    if done.returncode:
        raise BrokerError(f"{tool}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    shutil.copytree(trial.data, made / "kafka", ignore=shutil.ignore_patterns("meta.properties"))
    process = launch(java, trial, options=[f"-XX:AOTCacheOutput={made / 'kafka.aot'}"])
    try:
        await_ready(trial, record.bootstrap, process, deadline_s=60.0)
        process.terminate()
        process.wait(STOP_S)
    finally:
        process.kill()
        process.wait()
