"""What every sandbox must do, whatever is behind it. `unsafe-subprocess` needs a user that is not root."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schemas.errors import SandboxError
from schemas.executions import Action, ExecutionLimits, Outcome
from streams.sandbox import FakeSandbox, Sandbox, open_sandbox
from streams.sandbox.bubblewrap import BubblewrapSandbox
from streams.sandbox.enforcement import Enforcement
from streams.sandbox.inside.tree import Entry, pack, unpack
from streams.sandbox.unsafe import UnsafeSandbox
from tests.streams.sandbox.shared_home import sandbox_home

BACKENDS = ["bubblewrap", "bubblewrap-without-cgroups", "unsafe-subprocess", "fake"]
HELLO = Action(code='print("hello")')
NUM_SLOTS = 2


def open_backend(backend: str, home: Path) -> Sandbox:
    if backend == "unsafe-subprocess" and os.geteuid() == 0:
        pytest.skip("never runs as root; see tests/streams/sandbox/test_as_a_user.py")
    if backend == "bubblewrap-without-cgroups":
        return BubblewrapSandbox(num_slots=NUM_SLOTS, home=home, enforcement=Enforcement(use_cgroups=False))
    if backend == "fake":
        hello = Outcome(status="ok", exit_code=0, stdout=b"hello\n", stdout_bytes=6)
        return FakeSandbox({HELLO.code: hello, "ls": hello}, num_slots=NUM_SLOTS)
    return open_sandbox(backend, num_slots=NUM_SLOTS, home=home, allow_unsafe=True)


@pytest.fixture(scope="module")
def contract_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sandbox_home(tmp_path_factory)


@pytest.fixture(scope="module", params=BACKENDS)
def sandbox(request: pytest.FixtureRequest, contract_home: Path) -> Iterator[Sandbox]:
    with open_backend(request.param, contract_home) as opened:
        yield opened


@pytest.fixture(scope="module", params=BACKENDS[:-1])
def real_sandbox(request: pytest.FixtureRequest, contract_home: Path) -> Iterator[Sandbox]:
    with open_backend(request.param, contract_home) as opened:
        yield opened


def test_an_outcome_says_where_it_comes_from(sandbox: Sandbox) -> None:
    outcome = sandbox.run(HELLO)
    assert (outcome.status, outcome.stdout, outcome.exit_code, outcome.signal) == ("ok", b"hello\n", 0, None)
    assert outcome.backend
    assert outcome.image_digest == sandbox.image_digest
    assert {"bubblewrap": "namespaces", "unsafe-subprocess": "none", "fake": "fake"}[
        outcome.backend
    ] == outcome.isolation
    assert set(outcome.limits_enforced) <= set(ExecutionLimits.__struct_fields__)
    assert sandbox.num_slots == NUM_SLOTS


def test_many_threads_each_get_their_own_answer(sandbox: Sandbox) -> None:
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(sandbox.run, [HELLO] * 24))
    assert [outcome.stdout for outcome in outcomes] == [b"hello\n"] * 24


def test_a_closed_sandbox_refuses(request: pytest.FixtureRequest, contract_home: Path) -> None:
    for backend in BACKENDS:
        if backend != "unsafe-subprocess" or os.geteuid() != 0:
            sandbox = open_backend(backend, contract_home)
            sandbox.close()
            with pytest.raises(SandboxError, match="closed"):
                sandbox.run(HELLO)


def test_a_session_keeps_files(sandbox: Sandbox) -> None:
    if isinstance(sandbox, UnsafeSandbox):
        with pytest.raises(SandboxError, match="has no sessions"):
            sandbox.open_session()
        return
    with sandbox.open_session() as session:
        session.put("folder/data", b"\x00\xff")
        assert session.get("folder/data") == b"\x00\xff"
        assert session.run_command("ls", 5.0).status == "ok"
        for path in ("../up", "/etc/passwd", "", "missing"):
            with pytest.raises(SandboxError):
                session.get(path)


def test_both_streams_and_the_exit_code_are_the_programs(real_sandbox: Sandbox) -> None:
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)"
    outcome = real_sandbox.run(Action(code=code))
    assert (outcome.status, outcome.exit_code) == ("nonzero", 3)
    assert (outcome.stdout, outcome.stderr) == (b"out\n", b"err\n")
    assert (outcome.stdout_bytes, outcome.stderr_bytes) == (4, 4)
    assert not outcome.stdout_truncated
    assert outcome.wall_ms > 0
    assert outcome.max_rss_bytes > 1 << 20


def test_a_program_gets_prelude_input_and_files(real_sandbox: Sandbox) -> None:
    action = Action(
        prelude="import os, sys\ndef double(x): return 2 * x",
        code="print(double(int(sys.stdin.read())), open('in/a.bin', 'rb').read(), sorted(os.listdir('.')))",
        stdin=b"21",
        files={"in/a.bin": b"\x00\xff", "b": b""},
    )
    outcome = real_sandbox.run(action)
    assert (outcome.stdout, outcome.stderr) == (b"42 b'\\x00\\xff' ['b', 'in']\n", b"")


def test_an_error_names_the_program_and_its_line(real_sandbox: Sandbox) -> None:
    stderr = real_sandbox.run(Action(prelude="def f(): return g()", code="x = 1\nf()")).stderr.decode()
    assert "main.py" in stderr
    assert "line 2" in stderr
    assert stderr.endswith("NameError: name 'g' is not defined\n")
    stderr = real_sandbox.run(Action(code="print('a'\n\nx =")).stderr.decode()
    assert "main.py" in stderr
    assert "SyntaxError" in stderr


def test_a_command_runs_in_the_shell(real_sandbox: Sandbox) -> None:
    outcome = real_sandbox.run(Action(kind="command", code="cat; echo $((6 * 7)) >&2; exit 5", stdin=b"in"))
    assert (outcome.status, outcome.exit_code, outcome.stdout, outcome.stderr) == ("nonzero", 5, b"in", b"42\n")


def test_a_signal_is_told_apart_from_an_exit(real_sandbox: Sandbox) -> None:
    outcome = real_sandbox.run(Action(code="import os; os.kill(os.getpid(), 11)"))
    assert (outcome.status, outcome.signal, outcome.exit_code) == ("signaled", 11, None)


def test_each_limit_has_its_status(real_sandbox: Sandbox) -> None:
    def status(code: str, limits: ExecutionLimits) -> str:
        return real_sandbox.run(Action(code=code, limits=limits)).status

    assert status("while True: pass", ExecutionLimits(wall_s=0.3)) == "timed_out"
    assert status("while True: pass", ExecutionLimits(cpu_s=1.0)) == "cpu_limit"
    assert status("while True: print('x' * 999)", ExecutionLimits(output_bytes=1 << 20)) == "output_limit"
    assert status("x = bytearray(1 << 30)", ExecutionLimits(memory_bytes=128 << 20)) in {"oom", "nonzero"}


def test_long_output_keeps_head_and_tail(real_sandbox: Sandbox) -> None:
    limits = ExecutionLimits(keep_bytes=100)
    outcome = real_sandbox.run(Action(code="for i in range(10_000): print(i)", limits=limits))
    assert outcome.status == "ok"
    kept = [*range(20), *range(9990, 10_000)]
    assert outcome.stdout == b"".join(b"%d\n" % i for i in kept)
    assert outcome.stdout_bytes == sum(len(str(i)) + 1 for i in range(10_000))
    assert outcome.stdout_truncated


def test_what_a_program_left_running_is_ended(real_sandbox: Sandbox) -> None:
    code = "import subprocess\nsubprocess.Popen(['sleep', '60'])\nprint('done')"
    outcome = real_sandbox.run(Action(code=code))
    assert (outcome.status, outcome.stdout) == ("ok", b"done\n")
    assert outcome.wall_ms < 30_000


def test_a_path_out_of_the_working_directory_is_the_sandboxs_error(real_sandbox: Sandbox) -> None:
    for path in ("../x", "/x", "a/../../x", ""):
        outcome = real_sandbox.run(Action(code="1", files={path: b""}))
        assert outcome.status == "infra_error"
        assert "must be relative" in outcome.error


def test_code_that_cannot_be_compiled_is_the_programs_error(real_sandbox: Sandbox) -> None:
    for code in ("\0", "x = '\ud800'", "\tx\n y", "def"):
        outcome = real_sandbox.run(Action(code=code))
        assert (outcome.status, outcome.exit_code) == ("nonzero", 1), code
        assert b"Error" in outcome.stderr


KEPT = 1 << 20


def test_a_working_directory_goes_on_from_one_run_to_the_next(real_sandbox: Sandbox) -> None:
    line = "mkdir -p d/e; printf hi > d/x; ln -s d/x l; chmod 500 d; chmod +x f; mkfifo pipe"
    first = real_sandbox.run(Action(kind="command", code=line, files={"f": b"\x00\xff"}, keep_tree_bytes=KEPT))
    assert first.status == "ok"
    assert first.tree is not None
    assert unpack(first.tree) == {
        "d": Entry(0o500),
        "d/e": Entry(0o755),
        "d/x": Entry(0o644, b"hi"),
        "f": Entry(0o755, b"\x00\xff"),
        "l": Entry(0o777, target="d/x"),
    }
    again = real_sandbox.run(Action(kind="command", code="cat l; ls d", tree=first.tree, keep_tree_bytes=KEPT))
    assert again.stdout == b"hie\nx\n"
    assert again.tree == first.tree


def test_a_program_that_failed_leaves_its_directory_all_the_same(real_sandbox: Sandbox) -> None:
    action = Action(code="open('a', 'w').write('1')\nraise ValueError", keep_tree_bytes=KEPT)
    outcome = real_sandbox.run(action)
    assert outcome.status == "nonzero"
    assert outcome.tree is not None
    assert unpack(outcome.tree) == {"a": Entry(0o644, b"1")}


def test_a_directory_that_is_too_large_or_lost_to_a_limit_is_not_kept_and_the_outcome_says_so(
    real_sandbox: Sandbox,
) -> None:
    large = real_sandbox.run(Action(code="open('a', 'w').write('x' * 2000)", keep_tree_bytes=1000))
    assert (large.status, large.tree) == ("ok", None)
    assert "working directory has more bytes than may be kept" in large.error
    hung = Action(code="open('a', 'w')\nwhile True: pass", keep_tree_bytes=KEPT, limits=ExecutionLimits(wall_s=0.3))
    assert real_sandbox.run(hung).tree is None
    assert real_sandbox.run(Action(code="open('a', 'w')")).tree is None


def test_a_directory_is_laid_and_set_up_before_the_program_runs_and_that_is_not_seen(real_sandbox: Sandbox) -> None:
    tree = pack({"old": Entry(0o600, b"1")})
    action = Action(
        kind="command", setup="cat old > made; cat new >> made; echo noise", code="cat made", tree=tree,
        files={"new": b"2"},
    )  # fmt: skip
    assert real_sandbox.run(action).stdout == b"12"


def test_a_forged_directory_is_the_sandboxs_error_and_the_next_run_is_unharmed(real_sandbox: Sandbox) -> None:
    for tree in (pack({"../out": Entry(0o644, b"x")}), pack({"/tmp/out": Entry(0o644, b"x")}), b"nonsense"):
        outcome = real_sandbox.run(Action(code="print(1)", tree=tree))
        assert outcome.status == "infra_error"
        assert outcome.error
    assert real_sandbox.run(HELLO).stdout == b"hello\n"


def test_what_still_runs_cannot_change_a_directory_while_it_is_kept(real_sandbox: Sandbox) -> None:
    loop = "import os, itertools\nif os.fork() == 0:\n    for i in itertools.count(): open('a', 'w').write(str(i))"
    outcome = real_sandbox.run(Action(code=loop, keep_tree_bytes=KEPT))
    assert outcome.status == "ok"
    assert outcome.tree is not None
