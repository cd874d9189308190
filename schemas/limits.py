"""Sizes. Every limit of broker, topics and clients derives from one constant."""

MAX_RECORD_BYTES = 8 << 20
"""Largest record, uncompressed; also the broker's and the topics' limit on a compressed batch."""

INLINE_BYTES = 1 << 20
"""Larger values go to the blob store and travel as a claim check."""

FETCH_BYTES = MAX_RECORD_BYTES
"""What a consumer must be able to take from one partition at once."""

GATHER_BYTES = 64 << 10
"""What a broker gathers for a waiting consumer before it answers."""

GATHER_MS = 60
"""The longest that it gathers: a fetch costs a stage as much as several events, so they are taken together."""
