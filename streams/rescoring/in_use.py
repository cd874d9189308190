"""Which scorings commands made the ones that train, and whether today's verifiers still are what they stand for."""

from pathlib import Path

from consumers.reader import Reader
from schemas.config import LogSettings
from schemas.errors import ConfigError
from schemas.scorings import Scoring
from schemas.uses import InUse
from streams.rescoring.judge import scoring_for


def read_in_use(log: LogSettings, run_id: str, *, blob_dir: Path) -> InUse:
    """Return what the commands on the log make of a run. Raises LogError."""
    in_use = InUse(run_id)
    reader = Reader(
        log,
        ["commands"],
        blob_dir=blob_dir,
        start="beginning",
        bounded=True,
        on_undecodable=lambda _raw, _error: None,
    )
    try:
        for event in reader:
            in_use.take(event)
    finally:
        reader.close()
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
