"""What a stretch of the log was at one time, in one digest: whoever edits it later is found out."""

import msgspec


class LogSealed(msgspec.Struct, frozen=True, kw_only=True):
    """All records of one partition from `first` up to `end` had this digest.

    The digest is a chain over each record's offset, timestamp, key, value and headers; consumers/sealing.py says how.
    It starts from the seal before, so that a later seal also stands for all before it.
    """

    topic: str
    """Without the namespace."""
    partition: int
    first: int
    """Offset of the first record."""
    end: int
    """One past the last."""
    num_records: int
    previous: str
    """Digest of the seal that ends at `first`; empty where none does."""
    digest: str

    def __post_init__(self) -> None:
        """Refuse a stretch that holds nothing."""
        if not 0 <= self.first < self.end:
            raise ValueError(f"seal of offsets {self.first} to {self.end}; wanted at least one")
