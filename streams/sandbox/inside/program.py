"""A Python program in this process, as `python main.py` would run it: same namespace, traceback, exit code and end."""

from __future__ import annotations  # `typing` and what it loads would lie in every job's memory

import atexit
import builtins
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

MAIN_PATH = "/box/main.py"
PRELUDE_PATH = "/box/prelude.py"


def run_program(prelude: str, code: str) -> None:
    """Run to the end and leave the process; returns never, also in children that the program forks."""
    status = 1
    try:
        namespace = _fresh_main()
        _write_source(MAIN_PATH, code)
        if prelude:
            _write_source(PRELUDE_PATH, prelude)
            exec(compile(prelude, PRELUDE_PATH, "exec", dont_inherit=True), namespace)  # noqa: S102  it is what this is for
        exec(compile(code, MAIN_PATH, "exec", dont_inherit=True), namespace)  # noqa: S102
        status = 0
    except SystemExit as stop:
        status = exit_status(stop)
    except BaseException as error:  # noqa: BLE001  the program's, to be shown as Python shows it
        show_error(error)
    try:
        status = _finish(status)
    finally:
        os._exit(status)


def exit_status(stop: SystemExit) -> int:
    """Return what Python makes of `sys.exit(x)`."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)  # noqa: T201
    return 1


def show_error(error: BaseException) -> None:
    """Print it by `sys.excepthook`, without this file's frames."""
    traceback = error.__traceback__
    while traceback is not None and _is_ours(traceback):
        traceback = traceback.tb_next
    sys.excepthook(type(error), error.with_traceback(traceback), traceback)


def _is_ours(traceback: TracebackType) -> bool:
    return traceback.tb_frame.f_code.co_filename.startswith(_OURS)


def _fresh_main() -> dict[str, object]:
    main = type(sys)("__main__")
    main.__file__ = MAIN_PATH
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    sys.argv[:] = [MAIN_PATH]
    sys.path[0] = os.getcwd()
    gc.enable()
    return main.__dict__


def _write_source(path: str, source: str) -> None:
    """Write where tracebacks and `inspect` look. What cannot be encoded fails in `compile`, with the right words."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, source.encode(errors="surrogatepass"))
    os.close(fd)


def _finish(status: int) -> int:
    """End in the order of `Py_FinalizeEx`: threads, exit functions, flush, what the program's names held, flush."""
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
    flushed = flush()
    sys.modules["__main__"].__dict__.clear()
    gc.collect()
    return status if flushed and flush() else 120


def flush() -> bool:
    """Flush both streams; whether that worked."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except (OSError, ValueError):
        return False
    return True


_OURS = os.path.dirname(__file__) + "/"
