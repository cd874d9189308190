"""A session's interpreter: takes cells from one descriptor, tells exit statuses on another, keeps its variables.

The code that it runs shares this process and may say what it likes on both; the host believes it no more than it
believes stdout.
"""

from __future__ import annotations  # `typing` and what it loads would lie in every job's memory

import builtins
import gc
import os
import sys

from . import job, program, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

CELLS_FD, DONE_FD = 3, 4


def cell_path(number: int) -> str:
    """Where a cell's source lies, written before its number is sent; tracebacks name it."""
    return f"/box/cell-{number}.py"


def run_kernel() -> NoReturn:
    """Until the session's process 1 is gone."""
    gc.enable()
    main = type(sys)("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    sys.argv[:] = [""]
    sys.path[0] = ""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # so that a deadline loses no line
    os.set_inheritable(CELLS_FD, False)
    os.set_inheritable(DONE_FD, False)
    while True:
        try:
            (number,) = wire.LENGTH.unpack(job.read_exactly(CELLS_FD, wire.LENGTH.size))
        except EOFError:
            os._exit(0)
        status = _run_cell(cell_path(number), main.__dict__)
        os.write(DONE_FD, wire.LENGTH.pack(status))


def _run_cell(path: str, namespace: dict[str, object]) -> int:
    import ast  # only here: it would lie in every job's memory

    status = 1
    try:
        with open(path, encoding="utf-8", errors="surrogatepass") as file:
            code = file.read()
        tree = ast.parse(code, path)
        last = tree.body[-1].value if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if last is not None:
            del tree.body[-1]
        exec(compile(tree, path, "exec", dont_inherit=True), namespace)  # noqa: S102  it is what this is for
        if last is not None:
            value = eval(compile(ast.Expression(last), path, "eval", dont_inherit=True), namespace)  # noqa: S307
            sys.displayhook(value)
        status = 0
    except SystemExit as stop:
        status = program.exit_status(stop)
    except BaseException as error:  # noqa: BLE001  the cell's, to be shown as Python shows it
        program.show_error(error)
    program.flush()
    return status
