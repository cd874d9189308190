"""Whether a text can do nothing, whoever reads it as Python.

Libraries of puzzles hand an answer to `eval`, or to sympy, which does the same: an answer could then be a program that
runs where rewards are made. So what would reach an attribute, or call more than plain functions of values, is refused
before they see it; and so is what would take for ever, or all memory, to work out.
"""

import ast
import builtins
import re
import unicodedata
import warnings

PLAIN = frozenset(
    {"abs", "bool", "dict", "float", "frozenset", "int", "len", "list", "max", "min", "round", "set", "sorted"}
    | {"str", "sum", "tuple"}
)
"""Builtins that a text may call."""
REACHES = frozenset(dir(builtins)) - PLAIN | {
    *("lambdify", "parse_expr", "parse_latex", "parse_mathematica", "parse_maxima", "plot", "plot3d", "plot_implicit"),
    *("plot_parametric", "preview", "pycode", "source", "sympify", "init_printing", "init_session", "register_dataset"),
    *(
        "register_curriculum",
        "create_dataset",
        "create_curriculum",
        "doctest",
        "test",
        "textplot",
        "ufuncify",
        "autowrap",
    ),
}
"""Names that do more than compute a value."""
BANNED = (
    *(ast.Attribute, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr),
    *(ast.Await, ast.Yield, ast.YieldFrom, ast.JoinedStr, ast.FormattedValue, ast.Starred),
)
HIDDEN_NAME = re.compile(r"__[A-Za-z]|[A-Za-z]__")
METHOD = re.compile(r"[\w)\]}'\"]\.[A-Za-z_]\w*\s*[(\[]|[\w)\]}'\"]\s*\.\s*[A-Za-z_]\w*[(\[]")
CALLED = re.compile(r"([A-Za-z_]\w*)\s*\(")
MOST_EXPONENT = 1000


def danger_in(text: str) -> str | None:
    """Return what a text could do, None where it can only be a value, or nothing."""
    text = unicodedata.normalize("NFKC", text)  # as Python does with names
    if HIDDEN_NAME.search(text):
        return "a name with two underscores"
    found = None
    for variant in dict.fromkeys((text, text.replace("!", " "), text.replace("^", "**"))):
        tree = parsed(variant)
        found = found or (danger_unparsed(variant) if tree is None else danger_of(tree))
    return found


def parsed(text: str) -> ast.AST | None:
    """Return a text as a Python expression, None where it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is odd in an answer nobody needs to hear
            return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def danger_unparsed(text: str) -> str | None:
    """Return what a text that is no Python could do once a library has made some of it."""
    if METHOD.search(text):
        return "a method that is called"
    called = [name for name in CALLED.findall(text) if name in REACHES]
    return f"a call of {called[0]}" if called else None


def danger_of(tree: ast.AST) -> str | None:
    """Return what a Python expression could do."""
    nodes = list(ast.walk(tree))
    calls = any(isinstance(node, ast.Call) for node in nodes)
    for node in nodes:
        if isinstance(node, BANNED):
            return f"Python beyond values: {type(node).__name__}"
        if calls and isinstance(node, ast.Name) and node.id in REACHES:
            return f"the name {node.id}"  # as an argument, too: what is called may call it
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
            return "a call of something that has no name"
        if isinstance(node, ast.BinOp) and is_endless(node):
            return "a value that is too large to be worked out"
    return None


def is_endless(node: ast.BinOp) -> bool:
    """Return whether an operation can make a value of any size from a few characters."""
    if isinstance(node.op, ast.Pow):
        exponent = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
        if isinstance(exponent, ast.Constant):
            value = exponent.value
            return not isinstance(value, int | float) or abs(value) > MOST_EXPONENT
        return any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.Pow) for one in ast.walk(exponent))
    sides = (node.left, node.right)
    many = any(isinstance(side, ast.List | ast.Tuple) or is_text(side) for side in sides)
    return isinstance(node.op, ast.LShift) or (isinstance(node.op, ast.Mult | ast.Mod) and many)


def is_text(node: ast.AST) -> bool:
    """Return whether it is a text or bytes as they are written."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
