"""The piece of a text that a part looks at. Where there are several, the last one counts; each takes linear time."""

import json
import re
from functools import lru_cache
from typing import Any, NoReturn

PLAIN = ("last_line", "fenced", "boxed", "json")
TAG = "tag:"
TAG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
FENCE = "```"
BRACE = re.compile(r"\\(boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
OPENING = re.compile(r"[\[{]")
MOST_DEPTH = 100
"""Arrays and objects within each other; what is nested deeper is no answer to anything."""
MOST_WORK = 1 << 24
"""Characters that are read, again and again, in search of JSON."""
COUNTING = 8
"""Characters that an error counts, up to where it is, while one is read."""


def is_extraction(name: str) -> bool:
    """Return whether there is such an extraction."""
    return not name or name in PLAIN or (name.startswith(TAG) and TAG_NAME.fullmatch(name[len(TAG) :]) is not None)


def extracted(text: str, how: str) -> str | None:
    """Return the piece, None where the text has none."""
    match how:
        case "":
            return text
        case "last_line":
            lines = [line for line in text.splitlines() if line.strip()]
            return lines[-1].strip() if lines else None
        case "fenced":
            return last_fenced(text)
        case "boxed":
            return last_boxed(text)
        case "json":
            found = last_json(text)
            return None if found is None else found[0]
    return last_tagged(text, how.removeprefix(TAG))


def last_fenced(text: str) -> str | None:
    """Return what stands between the last two lines of three backquotes; a word behind the first three is not in it."""
    blocks: list[str] = []
    open_block: list[str] | None = None
    for line in text.split("\n"):
        if line.strip().startswith(FENCE):
            if open_block is not None:
                blocks.append("\n".join(open_block))
            open_block = [] if open_block is None else None
        elif open_block is not None:
            open_block.append(line)
    return blocks[-1] if blocks else None


def last_boxed(text: str) -> str | None:
    r"""Return what stands in the last `\boxed{...}` that is closed; braces within nest."""
    last: str | None = None
    open_braces: list[int] = []
    for brace in BRACE.finditer(text):
        if brace[0] == "}":
            start = open_braces.pop() if open_braces else -1
            if start >= 0:
                last = text[start : brace.start()]
        elif brace[0] == "{":
            open_braces.append(-1)
        elif brace[0].endswith("{") and brace[1]:
            open_braces.append(brace.end())
    return last


def last_tagged(text: str, name: str) -> str | None:
    """Return what stands in the last `<name>...</name>`."""
    opening, closing = f"<{name}>", f"</{name}>"
    end = text.rfind(closing)
    start = text.rfind(opening, 0, end) if end >= 0 else -1
    return text[start + len(opening) : end].strip() if start >= 0 else None


def last_json(text: str) -> tuple[str, Any] | None:
    """Return the last JSON object or array that is in no other one, as it is written and what it says."""
    found: tuple[str, Any] | None = None
    place, work = 0, 0
    while work < MOST_WORK and (opening := OPENING.search(text, place)) is not None:
        start = opening.start()
        try:
            value, place = decoder().raw_decode(text, start)
            work += place - start
            if not is_deep(value):
                found = (text[start:place], value)
        except json.JSONDecodeError as error:
            work += error.pos - start + error.pos // COUNTING + 1
            place = start + 1
        except (ValueError, RecursionError):
            # No number of JSON, or nested deeper than can be read; how far it came is not known.
            work += len(text) - start
            place = start + 1
    return found if work < MOST_WORK else None


def read_json(text: str) -> Any:
    """Return what JSON says. Raises ValueError, for what is no JSON by the letter too: NaN, infinity."""
    try:
        value, end = decoder().raw_decode(text.strip())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if is_deep(value):
        raise ValueError(f"it is nested over {MOST_DEPTH} deep")
    if text.strip()[end:]:
        raise ValueError(f"there is something after the value: {text.strip()[end : end + 20]!r}")
    return value


def is_deep(value: Any) -> bool:
    """Return whether more is within each other than may be."""
    layer, depth = [value], 0
    while layer := [one for one in layer if isinstance(one, dict | list)]:
        depth += 1
        layer = [inner for one in layer for inner in (one.values() if isinstance(one, dict) else one)]
    return depth > MOST_DEPTH


@lru_cache(maxsize=1)
def decoder() -> json.JSONDecoder:
    """Return a decoder that refuses what JSON has not."""
    return json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:20]} is too large")
    return number
