"""Verifiers by name. Adding one is a module here and a line below."""

from types import MappingProxyType

from schemas.errors import ConfigError
from streams.verifiers.exact_match import EXACT_MATCH
from streams.verifiers.exit_status import EXIT_STATUS
from streams.verifiers.interface import Score, Verifier
from streams.verifiers.parts.interpreter import PARTS
from streams.verifiers.stdout_match import STDOUT_MATCH

VERIFIERS: MappingProxyType[str, Verifier] = MappingProxyType(
    {verifier.name: verifier for verifier in (EXACT_MATCH, EXIT_STATUS, PARTS, STDOUT_MATCH)}
)


def get_verifier(name: str) -> Verifier:
    """Return the verifier of that name. Raises ConfigError that lists the known ones."""
    verifier = VERIFIERS.get(name)
    if verifier is None:
        raise ConfigError(f"verifier {name!r} is not known; known are: {', '.join(sorted(VERIFIERS))}")
    return verifier


__all__ = ["VERIFIERS", "Score", "Verifier", "get_verifier"]
