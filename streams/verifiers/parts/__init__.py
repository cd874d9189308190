"""Kinds of parts by name. Adding one is a module here and a line below."""

from types import MappingProxyType

from schemas.errors import ConfigError
from streams.verifiers.parts.cases import CASES
from streams.verifiers.parts.contains import ABSENT, CONTAINS
from streams.verifiers.parts.exact import EXACT
from streams.verifiers.parts.geometry import GEOMETRY
from streams.verifiers.parts.interface import PartKind
from streams.verifiers.parts.judge import JUDGE
from streams.verifiers.parts.mathematics import MATH
from streams.verifiers.parts.milestones import MILESTONES
from streams.verifiers.parts.numeric import NUMERIC
from streams.verifiers.parts.puzzle import PUZZLE
from streams.verifiers.parts.regex import REGEX
from streams.verifiers.parts.reported import REPORTED
from streams.verifiers.parts.rouge_l import ROUGE_L
from streams.verifiers.parts.schema import SCHEMA
from streams.verifiers.parts.set_f1 import SET_F1
from streams.verifiers.parts.spending import COST, LENGTH
from streams.verifiers.parts.sql import SQL
from streams.verifiers.parts.stdout import STDOUT
from streams.verifiers.parts.table import TABLE

PART_KINDS: MappingProxyType[str, PartKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            ABSENT,
            CASES,
            CONTAINS,
            COST,
            EXACT,
            GEOMETRY,
            JUDGE,
            LENGTH,
            MATH,
            MILESTONES,
            NUMERIC,
            PUZZLE,
            REGEX,
            REPORTED,
            ROUGE_L,
            SCHEMA,
            SET_F1,
            SQL,
            STDOUT,
            TABLE,
        )
    }
)


def get_kind(name: str) -> PartKind:
    """Return the kind of that name. Raises ConfigError that lists the known ones."""
    kind = PART_KINDS.get(name)
    if kind is None:
        raise ConfigError(f"kind of part {name!r} is not known; known are: {', '.join(sorted(PART_KINDS))}")
    return kind


__all__ = ["PART_KINDS", "PartKind", "get_kind"]
