"""From the command line and the environment to settings and places.

Defaults, then files left to right, then the environment, then `--set` flags. Client settings may be secrets: they come
from a file or from `ROLLOG_CLIENT_*`, are never printed, and reach child processes through their environment only.
"""

import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import platformdirs

from schemas.config import Settings, check, load_settings, resolved
from schemas.errors import ConfigError

CLIENT_PREFIX = "ROLLOG_CLIENT_"
NOT_SHOWN = "(not shown)"


def home_dir(home: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of all of rollog's data: the flag, else `ROLLOG_HOME`, else the platform's data folder."""
    chosen = home or environ.get("ROLLOG_HOME") or platformdirs.user_data_dir("rollog", appauthor=False)
    return Path(chosen).expanduser().absolute()


def client_from(environ: Mapping[str, str]) -> dict[str, str]:
    """Return client settings by the environment: `ROLLOG_CLIENT_SASL_PASSWORD` is `sasl.password`."""
    return {
        name.removeprefix(CLIENT_PREFIX).lower().replace("_", "."): value
        for name, value in environ.items()
        if name.startswith(CLIENT_PREFIX)
    }


def client_to_environ(client: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that hands client settings to a child process."""
    return {CLIENT_PREFIX + name.upper().replace(".", "_"): value for name, value in client.items()}


def resolve(files: Sequence[Path] = (), flags: Sequence[str] = (), environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the run's settings. Raises ConfigError."""
    bootstrap = environ.get("ROLLOG_BOOTSTRAP")
    from_environ = [f'log.bootstrap="{bootstrap}"'] if bootstrap else []
    settings = load_settings(files, [*from_environ, *flags])
    client = {name: value for name, value in settings.log.client.items() if value != NOT_SHOWN}
    log = msgspec.structs.replace(settings.log, client=client | client_from(environ))
    settings = expand_domains(msgspec.structs.replace(settings, log=log))
    if not settings.run or "/" in settings.run or settings.run.startswith("."):
        raise ConfigError(f"run = {settings.run!r}: it names a folder; wanted a plain name, demo-1, say")
    check(settings)
    check_verifiers(settings)
    return settings


def expand_domains(settings: Settings) -> Settings:
    """Return the settings with a domain each for what a name with a `*` stands for; they share its weight.

    A domain that is named itself keeps its own. Raises ConfigError where a name stands for none.
    """
    given = settings.tasks.domains
    if not any("*" in name for name in given):
        return settings
    from producers.domains.catalogue import all_domains

    plain = {name: weight for name, weight in given.items() if "*" not in name}
    found: dict[str, float] = {}
    for pattern, weight in given.items():
        if pattern in plain:
            continue
        meant = [name for name in all_domains() if fnmatchcase(name, pattern) and name not in plain]
        if not meant:
            raise ConfigError(f"tasks.domains.{pattern!r}: no domain has such a name; `rollog domains list` shows all")
        for name in meant:
            found[name] = found.get(name, 0.0) + weight / len(meant)
    tasks = msgspec.structs.replace(settings.tasks, domains=found | plain)
    return msgspec.structs.replace(settings, tasks=tasks)


def check_verifiers(settings: Settings) -> None:
    """Raise ConfigError where `tasks.verifiers` names what is neither in `verifier.named` nor a kind."""
    if not settings.tasks.verifiers:
        return
    from streams.verifiers import VERIFIERS

    for domain, name in settings.tasks.verifiers.items():
        choice = settings.verifier.named.get(name)
        kind = name if choice is None else choice.kind
        if kind not in VERIFIERS:
            field = f"tasks.verifiers.{domain}" if choice is None else f"verifier.named.{name}.kind"
            raise ConfigError(
                f"{field} = {kind!r}: no verifier is known by it; wanted one of {', '.join(sorted(VERIFIERS))}, or a "
                f"name that verifier.named gives to one (now: {', '.join(sorted(settings.verifier.named)) or 'none'})"
            )


def save(settings: Settings, run_dir: Path) -> Path:
    """Write the resolved settings, secrets left out, as the run's `settings.json`; returns its path."""
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir / "settings.json"
    partial = path.with_suffix(".json.partial")
    partial.write_text(resolved(settings) + "\n")
    os.replace(partial, path)
    return path
