"""Whether a spec can be judged by at all: what admits a domain asks before its first task.

Every refusal names the part, the field, what was got and what was wanted.
"""

import math
import re
from typing import NoReturn

import msgspec

from schemas.errors import ConfigError
from schemas.parts import Part
from schemas.tasks import VerifierSpec
from streams.verifiers.parts import get_kind
from streams.verifiers.parts.extraction import PLAIN, is_extraction
from streams.verifiers.parts.interface import PartKind
from streams.verifiers.parts.interpreter import KINDS
from streams.verifiers.parts.subjects import FILE, TEXTS

LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ -]{0,63}")
MOST_PARTS = 32
SUBJECTS = {"stream": ("stdout",), "cases": ("cases",), "steps": ("calls",), "rollout": ()}
"""What `of` may be beside its default, by the content of a kind that looks at no text."""


def check_spec(spec: VerifierSpec) -> None:
    """Raise ConfigError where a spec of kind `parts` cannot be judged by; others have nothing to check here."""
    if spec.kind != "parts":
        return
    if not 1 <= len(spec.parts) <= MOST_PARTS:
        raise ConfigError(f"verifier parts: got {len(spec.parts)} parts; wanted 1 to {MOST_PARTS}")
    labels: set[str] = set()
    for place, part in enumerate(spec.parts):
        check_part(place, part)
        if part.label in labels:
            refuse(place, part, "name", part.label, "a name that no other part has")
        labels.add(part.label)
    check_roles(spec.parts)


def check_part(place: int, part: Part) -> None:
    """Raise ConfigError where one part cannot be judged by itself."""
    if not LABEL.fullmatch(part.label) or part.label == KINDS:
        refuse(place, part, "name", part.label, f"up to 64 letters, digits, _, - and spaces, and not {KINDS!r}")
    try:
        kind = get_kind(part.kind)
        kind.maker  # noqa: B018 it needs the kind's library
    except ConfigError as error:
        raise ConfigError(f"verifier part {place} ({part.label}), kind: {error}") from None
    if part.role not in kind.roles:
        refuse(place, part, "role", part.role, f"one of {', '.join(sorted(kind.roles))}, as {kind.name} is for those")
    check_numbers(place, part)
    check_subject(place, part, kind)
    try:
        expected = msgspec.convert(part.expected, kind.expects)
        options = msgspec.convert(part.options, kind.options)
        kind.check(expected, options)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"verifier part {place} ({part.label}): {error}") from error


def check_numbers(place: int, part: Part) -> None:
    """Raise ConfigError where a weight or a threshold is none."""
    if not (math.isfinite(part.weight) and part.weight >= 0):
        refuse(place, part, "weight", part.weight, "a number from 0")
    if part.role == "penalty" and not 0 < part.weight <= 1:
        refuse(place, part, "weight", part.weight, "more than 0 and at most 1, for a penalty")
    if not 0 < part.at_least <= 1:
        refuse(place, part, "at_least", part.at_least, "more than 0 and at most 1")
    if not 0 <= part.after <= 1:
        refuse(place, part, "after", part.after, "0 to 1")


def check_subject(place: int, part: Part, kind: PartKind) -> None:
    """Raise ConfigError where a kind cannot look at what `of` and `extract` say."""
    if kind.content == "text":
        is_file = part.of.startswith(FILE) and is_path(part.of.removeprefix(FILE))
        if part.of not in TEXTS and not is_file:
            refuse(place, part, "of", part.of, f"one of {', '.join(TEXTS)}, or {FILE}PATH below the working directory")
        if not is_extraction(part.extract):
            refuse(place, part, "extract", part.extract, f"nothing, one of {', '.join(PLAIN)}, or tag:NAME")
        return
    allowed = SUBJECTS[kind.content]
    if part.of not in ("answer", *allowed):
        refuse(place, part, "of", part.of, f"{' or '.join(allowed) or 'nothing'}, which is what {kind.name} looks at")
    if part.extract:
        refuse(place, part, "extract", part.extract, f"nothing: {kind.name} looks at no text")


def is_path(path: str) -> bool:
    """Return whether it is the path of a file below a working directory, written in the one way."""
    return bool(path) and all(name not in ("", ".", "..") for name in path.split("/")) and "\0" not in path


def check_roles(parts: tuple[Part, ...]) -> None:
    """Raise ConfigError where the parts together leave nothing to judge by."""
    paid = [part for part in parts if part.role == "credit"]
    if paid and not math.fsum(part.weight for part in paid) > 0:
        raise ConfigError("verifier parts: got a weight of 0 for every part of role credit; wanted one above 0")
    if not paid and not any(part.role == "gate" for part in parts):
        raise ConfigError("verifier parts: got neither a credit nor a gate, so that any answer is right; wanted one")
    for place, part in enumerate(parts):
        if part.after and not any(one.role == "credit" and one.weight > 0 for one in parts[:place]):
            refuse(place, part, "after", part.after, "0: there is no credit before it that it could wait for")


def refuse(place: int, part: Part, field: str, got: object, wanted: str) -> NoReturn:
    """Raise ConfigError about one field."""
    raise ConfigError(f"verifier part {place} ({part.label}), {field}: got {got!r}; wanted {wanted}")
