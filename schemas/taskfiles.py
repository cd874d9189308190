"""Where tasks of one's own lie, and how they are read."""

from typing import Literal

import msgspec


class TaskFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of tasks as a domain.

    Example: `TaskFile(path="gsm.jsonl", prompt="question", gold="answer", kind="numeric")`.
    """

    path: str
    """JSON lines (`.jsonl`), Parquet (`.parquet`, extra `analysis`), or a folder of Harbor task folders; relative to
    the working directory."""
    prompt: str = "prompt"
    """Field that holds what is asked."""
    gold: str = "gold"
    """Field that holds what is right."""
    level: str = "level"
    """Field that holds the difficulty, from 0; without it all are of level 0."""
    kind: Literal["exact", "numeric", "math"] = "exact"
    """How an answer is compared with what is right, where a row has no `verifier` of its own."""
    extract: str = "last_line"
    """What of an answer is compared; see `schemas/parts.py`."""
    family: str = "files"
    max_tokens: int = 0
    instruction: str = "\nEnd with one line that is the answer alone.\n"
    """Appended to what is asked."""
