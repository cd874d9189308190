"""Which partition a key is on, computed as every client of the log does: murmur2, as Kafka's own producer has it."""

MASK = 0xFFFFFFFF
SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995


def murmur2(key: bytes) -> int:
    """Return the 32-bit hash, unsigned. After Austin Appleby's MurmurHash2, with Kafka's seed."""
    length = len(key)
    digest = (SEED ^ length) & MASK
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * MULTIPLIER & MASK
        word = (word ^ word >> 24) * MULTIPLIER & MASK
        digest = digest * MULTIPLIER & MASK ^ word
    if length > whole:
        digest = (digest ^ int.from_bytes(key[whole:], "little")) * MULTIPLIER & MASK
    digest = (digest ^ digest >> 13) * MULTIPLIER & MASK
    return digest ^ digest >> 15


def partition_of(key: str, num_partitions: int) -> int:
    """Return the partition that events of this key are on."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % num_partitions
