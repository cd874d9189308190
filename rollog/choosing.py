"""From what `--verifier` says, or a name in the settings, to a verifier to score with."""

import json
import tomllib
from pathlib import Path

import msgspec

from schemas.config import VerifierSettings
from schemas.errors import ConfigError
from schemas.scorings import VerifierChoice
from streams.verifiers import VERIFIERS

OWN = "own"
"""Each task's own verifier, again."""


def choose(text: str, settings: VerifierSettings) -> VerifierChoice | None:
    """Return the verifier that a name, a file or inline JSON says; None is each task's own. Raises ConfigError."""
    if text == OWN:
        return None
    if text.lstrip().startswith("{"):
        return read_choice(text, "json", "--verifier")
    if text in settings.named:
        choice = settings.named[text]
    elif text in VERIFIERS:
        choice = VerifierChoice(kind=text)
    elif text.endswith((".json", ".toml")):
        path = Path(text)
        try:
            choice = read_choice(path.read_text(), path.suffix.removeprefix("."), text)
        except OSError as error:
            raise ConfigError(f"--verifier {text}: {error}") from error
    else:
        named = f"; the settings name {', '.join(sorted(settings.named))}" if settings.named else ""
        raise ConfigError(
            f"verifier {text!r} is not known; known are {', '.join(sorted(VERIFIERS))} and {OWN}{named}; "
            'or give a .json or .toml file, or JSON: {"kind": "exact_match"}'
        )
    return check_kind(choice, text)


def read_choice(content: str, form: str, where: str) -> VerifierChoice:
    """Return the verifier that a document says. Raises ConfigError."""
    try:
        tree = json.loads(content) if form == "json" else tomllib.loads(content)
        choice = msgspec.convert(tree, VerifierChoice)
    except (ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"{where}: {error}; wanted kind and, if need be, expected and partial") from error
    return check_kind(choice, where)


def check_kind(choice: VerifierChoice, where: str) -> VerifierChoice:
    """Return the choice if there is such a verifier. Raises ConfigError."""
    if choice.kind not in VERIFIERS:
        known = ", ".join(sorted(VERIFIERS))
        raise ConfigError(f"{where}: verifier kind {choice.kind!r} is not known; known are {known}")
    return choice
