"""What production users said of an answer."""

import msgspec


class FeedbackGiven(msgspec.Struct, frozen=True, kw_only=True):
    """Someone who uses a policy judged what it said."""

    subject: str
    """What was judged: a rollout id, or the caller's own request id."""
    policy: str
    policy_version: int | None = None
    rating: float | None = None
    """In [0, 1]; None where only text or a correction was given."""
    comment: str = ""
    correction: str = ""
    """What the answer should have been."""
    given_by: str = ""
