"""A program in the fork server behaves as `python main.py` does: the same bytes on both streams, the same exit code."""

import re
import subprocess
from pathlib import Path

import pytest

from schemas.executions import Action
from streams.sandbox.bubblewrap import BubblewrapSandbox
from streams.sandbox.rootfs_contents import base_interpreter

PROGRAMS = {
    "plain": "print('a', end='')",
    "exit without": "import sys; print('x'); sys.exit()",
    "exit with text": "import sys; sys.exit('bad')",
    "exit with a large number": "import sys; sys.exit(256 + 7)",
    "exit with none of these": "import sys; sys.exit([1])",
    "quit": "quit(5)",
    "raise SystemExit in a function": "def f(): raise SystemExit(2)\nf()",
    "error": "def f(x):\n    return 1 / x\nf(0)",
    "error with a cause": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e",
    "error in a context": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    [][1]",
    "syntax error": "x = 1\nif x\n    pass",
    "own hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1 / 0",
    "at exit": "import atexit\natexit.register(print, 'last')\nprint('first')",
    "at exit after an error": "import atexit\natexit.register(print, 'last')\n1 / 0",
    "thread": "import threading as t\nt.Timer(0.05, print, ['late']).start()\nprint('main')",
    "pool": "from concurrent.futures import ThreadPoolExecutor as T\nt = T(2)\nprint(list(t.map(abs, [-1, -2])))",
    "deleted at the end": "class A:\n    def __del__(self): print('gone')\na = A()\nprint('end')",
    "deleted in a cycle": "class A:\n    def __del__(self): print('gone')\na = A()\na.a = a\nprint('end')",
    "file left open": "f = open('x', 'w')\nf.write('y')\nprint('end')",
    "closed stdout": "import sys\nprint('a')\nsys.stdout.close()",
    "main": "import sys\nprint(__name__, sys.modules['__main__'].__dict__ is globals(), sys.argv[1:], __builtins__)",
    "names": "print(sorted(n for n in globals() if n not in ('__annotations__', '__cached__', '__warningregistry__')))",
    "fork": "import os\npid = os.fork()\nif not pid:\n    print('child')\n    exit(3)\nprint(os.waitpid(pid, 0)[1])",
    "process": "from multiprocessing import get_context\np = get_context('fork').Process(target=print, args=('in',))\n"
    "p.start()\np.join()\nprint(p.exitcode)",
    "subprocess": "import subprocess, sys\nprint(subprocess.check_output([sys.executable, '-c', 'print(6 * 7)']))",
    "asyncio": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7\nprint(asyncio.run(f()))",
    "stderr": "import sys, warnings\nwarnings.warn('careful')\nprint('e', file=sys.stderr)",
    "unicode": "print('é ∑ 🙂'); import sys; print(sys.stdout.encoding, sys.getfilesystemencoding())",
    "input": "print(input('? ')[::-1]); import sys; print(sys.stdin.read())",
    "recursion": "def f(): return f()\ntry:\n    f()\nexcept RecursionError as error:\n    print(error)",
    "dataclass": "import pickle, dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n"
    "print(pickle.loads(pickle.dumps(P(2))))",
    "future": "from __future__ import annotations\ndef f(x: nothing): pass\nprint(f.__annotations__)",
    "streams": "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr):\n"
    "    print(s.isatty(), s.line_buffering, s.errors, s is sys.stdin or s.seekable())",
    "source": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))",
    "interrupt": "import signal\nprint(signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGINT).__name__)",
    "abort in a thread": "import threading, os\nt = threading.Thread(target=os._exit, args=(9,))\nt.start()\nt.join()",
    "garbage collection": "import gc\nprint(gc.isenabled(), gc.get_threshold())",
    "import beside": "import helper\nprint(helper.X)",
}


def normal(text: bytes, folder: Path) -> str:
    return re.sub(r"(/box|" + re.escape(str(folder)) + r")(/work)?", "DIR", text.decode())


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_behaves_as_under_python(name: str, sandbox: BubblewrapSandbox, tmp_path: Path) -> None:
    code = PROGRAMS[name]
    (tmp_path / "work").mkdir()
    for path in (tmp_path / "main.py", tmp_path / "work" / "main.py"):
        path.write_text(code)
    (tmp_path / "helper.py").write_text("X = 5")
    plain = subprocess.run(
        [str(base_interpreter()), "-E", "-s", "-B", "-X", "utf8", str(tmp_path / "main.py")],
        input=b"abc\nrest",
        capture_output=True,
        cwd=tmp_path / "work",
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        check=False,
    )
    outcome = sandbox.run(Action(code=code, stdin=b"abc\nrest", files={"helper.py": b"X = 5"}))
    assert outcome.exit_code == plain.returncode, outcome
    assert normal(outcome.stdout, tmp_path) == normal(plain.stdout, tmp_path)
    assert normal(outcome.stderr, tmp_path) == normal(plain.stderr, tmp_path)
