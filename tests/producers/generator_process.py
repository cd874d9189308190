"""A process that is a generator with the scripted sampler, or an issuer: `SERVICE BOOTSTRAP NAMESPACE HOME SLOTS`."""

import signal
import sys
from pathlib import Path
from threading import Event as Flag

from consumers.runtime import Runtime
from consumers.telemetry import Telemetry
from producers.generator import run_generator
from producers.issuer import run_issuer
from schemas.config import AdmissionSettings, GeneratorSettings, LearnerSettings, LogSettings, Settings


def settings_of(bootstrap: str, namespace: str, num_slots: int = 4) -> Settings:
    return Settings(
        run="golden",
        log=LogSettings(bootstrap=bootstrap, namespace=namespace, partitions=3),
        generator=GeneratorSettings(sampler="scripted", num_slots=num_slots),
        admission=AdmissionSettings(max_staleness=1),
        learner=LearnerSettings(groups_per_step=10, steps=6),
    )


def runtime_of(service: str, settings: Settings, home: Path, stop: Flag) -> Runtime:
    return Runtime(settings=settings, home=home, instance=f"{service}-0", telemetry=Telemetry(service), stop=stop)


def main() -> None:
    service, bootstrap, namespace, home, num_slots = sys.argv[1:]
    stop = Flag()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    runtime = runtime_of(service, settings_of(bootstrap, namespace, int(num_slots)), Path(home), stop)
    {"generator": run_generator, "issuer": run_issuer}[service](runtime)


if __name__ == "__main__":
    main()
