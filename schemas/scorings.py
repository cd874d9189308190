"""A scoring: one pass of one verifier configuration over rollouts, under an id of its own.

What must hold: a scoring id stands for one configuration. An id that is derived holds the configuration's digest; one
that was chosen is declared on the log, with its digest, before its first reward.
"""

import re
from typing import Literal

import msgspec

from schemas.content import record_digest
from schemas.errors import ConfigError
from schemas.ids import derive_id
from schemas.tasks import TaskIssued, VerifierSpec

LIVE = "live"
"""The scoring by each task's own verifier spec; the one that trains where no command says otherwise."""
DECLARE, USE = "declare_scoring", "use_scoring"
"""Commands: an id is taken for a configuration; tasks that are issued from now on train on it."""
ALL_DOMAINS = "*"
DIGITS = 12
PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


class VerifierChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A verifier to score with, in place of what tasks name themselves.

    Example: `VerifierChoice(kind="exact_match")` compares the last turn with each task's own `expected`.
    """

    kind: str
    """Name in the verifier registry."""
    expected: str | None = None
    """None is what each task expects."""
    partial: Literal["none", "lines", "prefix"] = "none"

    def spec_for(self, own: VerifierSpec) -> VerifierSpec:
        """Return what is applied to a task whose own spec is `own`."""
        return VerifierSpec(
            kind=self.kind,
            expected=own.expected if self.expected is None else self.expected,
            partial=self.partial,
            parts=own.parts if self.kind == "parts" else (),
        )


class Scoring(msgspec.Struct, frozen=True, kw_only=True):
    """An id and all that can change a score under it."""

    scoring_id: str
    choice: VerifierChoice | None
    """None is the spec that each task was issued with: its rollouts are asked again."""
    verifier_version: int
    """Of the choice's verifier; 0 where each task has its own."""

    @property
    def digest(self) -> str:
        """Return the configuration's digest, which does not depend on the id."""
        return record_digest((self.choice, self.verifier_version))

    def spec_for(self, task: TaskIssued) -> VerifierSpec:
        """Return what is applied to a task."""
        return task.verifier if self.choice is None else self.choice.spec_for(task.own_spec)


def scoring_of(choice: VerifierChoice | None, *, version: int, scoring_id: str = "") -> Scoring:
    """Return the scoring of that id, or of the id that its configuration has by itself. Raises ConfigError."""
    scoring = Scoring(scoring_id=scoring_id, choice=choice, verifier_version=version)
    if not scoring_id:
        name = "own" if choice is None else f"{choice.kind}@{version}"
        hex_digits = scoring.digest.removeprefix("sha256:")[:DIGITS]
        return msgspec.structs.replace(scoring, scoring_id=f"{name}-{hex_digits}")
    if scoring_id == LIVE or not PLAIN_ID.fullmatch(scoring_id):
        raise ConfigError(
            f"scoring id {scoring_id!r}: wanted up to 100 letters, digits and . _ @ + -, and not {LIVE!r}, which is "
            "what the verifier service writes"
        )
    return scoring


def declaration_id(scoring_id: str, digest: str) -> str:
    """Return the event id of the command that takes an id for a configuration."""
    return derive_id(scoring_id, DECLARE, 0, digest)
