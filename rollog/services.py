"""Every service by name, and how a process becomes one. Its module is imported only in the process that runs it.

A service process says where it listens in `run_dir/services/<instance>.json`, takes SIGTERM or SIGINT as the word to
stop. Whatever dies, at any moment, is made good from the log.
"""

import importlib
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from consumers.runtime import Runtime
from consumers.telemetry import Telemetry, serve_telemetry
from rollog.logs import configure_logging
from schemas.config import Settings
from schemas.errors import ConfigError

SERVICES: dict[str, str] = {
    "issuer": "producers.issuer:run_issuer",
    "curriculum": "streams.curriculum.service:run_curriculum",
    "evaluator": "streams.evaluator:run_evaluator",
    "generator": "producers.generator:run_generator",
    "executor": "streams.executor:run_executor",
    "verifier": "streams.verifier:run_verifier",
    "assembler": "streams.assembler:run_assembler",
    "alerts": "streams.alerts:run_alerts",
    "learner": "learner.loop:run_learner",
    "sealer": "streams.sealer:run_sealer",
}
"""In the order of stopping: first what brings in new work, last what uses it up."""


def services_of(settings: Settings) -> list[str]:
    """Return the services that a run has, in the order of stopping: those that would only wait are not started."""
    return [name for name in SERVICES if name != "curriculum" or settings.curriculum.enabled]


def load_service(name: str) -> Callable[[Runtime], None]:
    """Return the function that is the service. Raises ConfigError that lists the known ones."""
    if name not in SERVICES:
        raise ConfigError(f"service {name!r}: known are {', '.join(SERVICES)}")
    module, _, function = SERVICES[name].partition(":")
    run: Callable[[Runtime], None] = getattr(importlib.import_module(module), function)
    return run


def run_service(name: str, settings: Settings, *, home: Path, instance: str, port: int = 0) -> None:
    """Be the service until told to stop; `port` 0 takes a free one."""
    configure_logging()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    runtime = Runtime(settings=settings, home=home, instance=instance, telemetry=Telemetry(name), stop=stop)
    run = load_service(name)
    server = serve_telemetry(runtime.telemetry, port=port)
    note_service(runtime.run_dir, instance, port=server.server_address[1])
    try:
        run(runtime)
    finally:
        server.shutdown()


def note_service(run_dir: Path, instance: str, *, port: int) -> None:
    """Record this process' id and telemetry port for whoever looks for the instance."""
    path = run_dir / "services" / f"{instance}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps({"instance": instance, "pid": os.getpid(), "port": port}))
    os.replace(partial, path)


def read_services(run_dir: Path) -> dict[str, dict[str, int]]:
    """Return pid and port of every instance that was ever noted in this run, by instance."""
    return {path.stem: json.loads(path.read_text()) for path in sorted((run_dir / "services").glob("*.json"))}
