import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rollog.exit_codes import ExitCode, code_of
from rollog.resolve import client_from, client_to_environ, home_dir, resolve, save
from rollog.up import child_environ
from schemas.config import load_settings
from schemas.errors import (
    CheckpointError,
    ConfigError,
    DecodeError,
    LogError,
    RollogError,
    SandboxError,
    StuckError,
    TapeError,
)

VERBS = (
    ["up"],
    ["run"],
    ["tap"],
    ["config"],
    ["recompute"],
    ["report"],
    ["report", "bias"],
    ["index"],
    ["audit"],
    ["verify-log"],
    ["seal"],
    ["rescore"],
    ["rebatch"],
    ["compare"],
    ["quarantine"],
    ["use"],
    ["fork"],
    ["diff"],
    ["rollback"],
    ["alerts"],
    ["demo"],
    ["chaos"],
    ["topics", "create"],
    ["topics", "check"],
    ["topics", "describe"],
    ["topics", "asyncapi"],
    ["tape", "export"],
    ["tape", "import"],
    ["tape", "cat"],
    ["tape", "verify"],
    ["replay"],
    ["archive"],
    ["broker", "start"],
    ["broker", "stop"],
    ["broker", "status"],
    ["broker", "logs"],
    ["broker", "reset"],
    ["domains", "list"],
    ["domains", "show"],
    ["domains", "try"],
    ["domains", "check"],
    ["curriculum", "show"],
    ["curriculum", "verify"],
    ["curriculum", "set"],
)


def rollog(*arguments: str, home: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROLLOG_")}
    return subprocess.run(
        [sys.executable, "-m", "rollog.cli", *arguments],
        env={**kept, "ROLLOG_HOME": str(home), **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def helps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    return {" ".join(verb): rollog(*verb, "--help", home=home).stdout for verb in VERBS}


@pytest.mark.parametrize("verb", [" ".join(verb) for verb in VERBS])
def test_every_verbs_help_ends_in_an_example(helps: dict[str, str], verb: str) -> None:
    *_, end = helps[verb].split("Example:")

    assert end.split()[: 1 + len(verb.split())] == ["rollog", *verb.split()]


def test_the_command_line_imports_nothing_heavy() -> None:
    program = "import sys, rollog.cli; rollog.cli.mount(); print([m for m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    for module in ("torch", "transformers", "faust", "aiokafka", "numpy", "confluent_kafka", "pyarrow"):
        assert f"'{module}'" not in loaded


def test_settings_come_from_files_left_to_right_then_environment_then_flags(tmp_path: Path) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text('seed = 1\n[learner]\nsteps = 5\n[log]\nbootstrap = "file:1"\nnamespace = "a."\n')
    second.write_text('seed = 2\n[log]\nnamespace = "b."\n')

    done = rollog(
        "config",
        "--config",
        str(first),
        "--config",
        str(second),
        "--set",
        "learner.steps=9",
        home=tmp_path,
        ROLLOG_BOOTSTRAP="environ:1",
    )

    settings = json.loads(done.stdout)
    assert settings["seed"] == 2
    assert settings["learner"]["steps"] == 9
    assert settings["log"]["namespace"] == "b."
    assert settings["log"]["bootstrap"] == "environ:1"


def test_secrets_are_never_printed(tmp_path: Path) -> None:
    done = rollog("config", home=tmp_path, ROLLOG_CLIENT_SASL_PASSWORD="hunter2")

    assert "hunter2" not in done.stdout + done.stderr
    assert "sasl.password" in json.loads(done.stdout)["log"]["client"]


def test_a_settings_error_is_one_line_on_stderr_with_its_own_status(tmp_path: Path) -> None:
    done = rollog("config", "--set", "learner.stepz=3", home=tmp_path)

    assert done.returncode == ExitCode.CONFIG
    assert done.stdout == ""
    assert "stepz" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_line_that_cannot_be_parsed_is_a_usage_error(tmp_path: Path) -> None:
    assert rollog("tap", home=tmp_path).returncode == ExitCode.USAGE
    assert rollog("fly", home=tmp_path).returncode == ExitCode.USAGE


def test_an_unknown_service_names_the_known_ones(tmp_path: Path) -> None:
    done = rollog("run", "verifyer", home=tmp_path, ROLLOG_BOOTSTRAP="127.0.0.1:1")

    assert done.returncode == ExitCode.CONFIG
    assert "verifier" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_log_the_two_ways_to_one_are_named(tmp_path: Path) -> None:
    done = rollog("topics", "check", home=tmp_path)

    assert done.returncode == ExitCode.CONFIG
    assert "rollog broker start" in done.stderr
    assert "ROLLOG_BOOTSTRAP" in done.stderr


def test_the_asyncapi_document_needs_no_log(tmp_path: Path) -> None:
    done = rollog("topics", "asyncapi", "--set", "log.namespace=x.", home=tmp_path)

    assert json.loads(done.stdout)["channels"]["tasks"]["address"] == "x.tasks"


def test_topics_are_created_and_checked_by_the_command(tmp_path: Path, broker: str, namespace: str) -> None:
    flag = f"log.namespace={namespace}"

    before = rollog("topics", "check", "--json", "--set", flag, home=tmp_path, ROLLOG_BOOTSTRAP=broker)
    created = rollog("topics", "create", "--set", flag, home=tmp_path, ROLLOG_BOOTSTRAP=broker)
    after = rollog("topics", "check", "--set", flag, home=tmp_path, ROLLOG_BOOTSTRAP=broker)

    assert before.returncode == ExitCode.FELL_SHORT
    assert json.loads(before.stdout)["drift"]
    assert created.returncode == ExitCode.OK
    assert after.returncode == ExitCode.OK


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError, ExitCode.CONFIG),
        (LogError, ExitCode.LOG),
        (DecodeError, ExitCode.DECODE),
        (SandboxError, ExitCode.SANDBOX),
        (CheckpointError, ExitCode.CHECKPOINT),
        (StuckError, ExitCode.STUCK),
        (TapeError, ExitCode.TAPE),
        (RollogError, ExitCode.OTHER),
    ],
)
def test_every_error_has_its_status(error: type[RollogError], code: ExitCode) -> None:
    assert code_of(error("x")) == code


def test_saved_settings_are_read_back_and_hold_no_secret(tmp_path: Path) -> None:
    secret = {"ROLLOG_CLIENT_SASL_PASSWORD": "hunter2", "ROLLOG_BOOTSTRAP": "h:1"}
    settings = resolve(flags=["learner.steps=7", "run=mine"], environ=secret)

    path = save(settings, tmp_path)

    assert "hunter2" not in path.read_text()
    assert load_settings([path]).learner.steps == 7
    assert resolve([path], environ=secret) == settings
    assert resolve([path], environ={}).log.client == {}


def test_client_settings_reach_a_service_by_its_environment() -> None:
    settings = resolve(flags=['log.client={"sasl.password"="x", "security.protocol"="SASL_SSL"}'], environ={})

    environ = child_environ({"PATH": "/bin", "PYTHONDONTWRITEBYTECODE": "1"}, settings)

    assert client_from(environ) == settings.log.client
    assert environ["OMP_NUM_THREADS"] == "1"
    assert "PYTHONDONTWRITEBYTECODE" not in environ
    assert client_to_environ({"sasl.password": "x"}) == {"ROLLOG_CLIENT_SASL_PASSWORD": "x"}


@pytest.mark.parametrize("run", ["", "a/b", "../up", ".hidden"])
def test_a_run_that_is_no_plain_folder_name_is_refused(run: str) -> None:
    with pytest.raises(ConfigError, match="run ="):
        resolve(flags=[f'run="{run}"'], environ={})


def test_home_is_the_flag_else_the_environment_else_the_platforms(tmp_path: Path) -> None:
    assert home_dir(tmp_path, {"ROLLOG_HOME": "/elsewhere"}) == tmp_path
    assert home_dir(None, {"ROLLOG_HOME": "/elsewhere"}) == Path("/elsewhere")
    assert home_dir(None, {}).name == "rollog"


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["tasks.verifiers.verbs=nobody"], ("tasks.verifiers.verbs", "nobody", "exit_status", "verifier.named")),
        (["tasks.verifiers={chess = 'exit_status'}"], ("tasks.verifiers.chess", "exit_status", "repair")),
        (
            ["tasks.verifiers={'*' = 'mine'}", "verifier.named.mine={kind = 'gone'}"],
            ("verifier.named.mine.kind", "gone", "mine"),
        ),
    ],
)
def test_a_verifier_for_training_that_is_not_known_is_refused_by_field_value_and_remedy(
    flags: list[str], names: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(flags=flags, environ={})
    assert all(name in str(caught.value) for name in names)


def test_a_verifier_for_training_may_be_a_kind_or_a_name_of_ones_own() -> None:
    named = "verifier.named.mine={kind = 'stdout_match', partial = 'lines'}"
    settings = resolve(flags=["tasks.verifiers={verbs = 'exit_status', '*' = 'mine'}", named], environ={})
    assert settings.tasks.verifiers == {"verbs": "exit_status", "*": "mine"}
