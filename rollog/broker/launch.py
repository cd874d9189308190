"""Starts the JVM of a broker in its data directory."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rollog.broker import lifeline
from rollog.broker.directory import BrokerDirectory, Record
from rollog.broker.java import Java
from rollog.broker.properties import LOG4J, server_properties


def write_files(directory: BrokerDirectory, record: Record) -> None:
    """Write the configuration, and set the last run's log aside."""
    text = server_properties(port=record.port, controller_port=record.controller_port)
    directory.properties.write_text(text)
    directory.log.with_name("log4j2.properties").write_text(LOG4J)
    if directory.log.exists():
        os.replace(directory.log, directory.log.with_name("broker.log.previous"))


def launch(
    java: Java,
    directory: BrokerDirectory,
    *,
    options: Sequence[str] = (),
    lock: int | None = None,
    detached: bool = True,
) -> subprocess.Popen[bytes]:
    """Start it with `lock`, no signal of this terminal, and, unless detached, SIGTERM when this process dies."""
    command = java.command("kafka.Kafka", directory.properties.name, options=options)
    if not detached:
        command = [sys.executable, "-I", "-S", str(Path(lifeline.__file__)), str(os.getpid()), *command]
    with directory.out.open("wb") as out:
        return subprocess.Popen(
            command,
            cwd=directory.path,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=() if lock is None else (lock,),
        )
