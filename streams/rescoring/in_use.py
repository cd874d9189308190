"""Which scorings commands made the ones that train, and whether today's verifiers still are what they stand for."""

from pathlib import Path

from schemas.config import LogSettings
from schemas.errors import ConfigError
from schemas.scorings import Scoring
from schemas.uses import InUse
from streams.rescoring.declared import commands_on
from streams.rescoring.judge import scoring_for


def read_in_use(log: LogSettings, run_id: str, *, blob_dir: Path) -> InUse:
    """Return what the commands on the log make of a run. Raises LogError."""
    in_use = InUse(run_id)
    for event in commands_on(log, blob_dir=blob_dir):
        in_use.take(event)
    return in_use


def check_today(scoring: Scoring) -> None:
    """Raise ConfigError where the scoring's verifier is of another version now: its rewards would be two kinds."""
    today = scoring_for(scoring.choice, scoring.scoring_id)
    if today.digest != scoring.digest:
        raise ConfigError(
            f"scoring {scoring.scoring_id!r} stands for version {scoring.verifier_version} of its verifier, which is "
            f"at version {today.verifier_version} now: declare a new one (rollog rescore --apply without "
            "--scoring-id), and use that (rollog use)"
        )
