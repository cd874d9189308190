from pathlib import Path

import pytest

from producers.blobs import BlobStore, ClaimCheck, decode_claim, encode_claim
from schemas.errors import DecodeError


def test_what_is_put_is_what_is_got(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    value = bytes(range(256)) * 1000

    claim = store.put(value)

    assert store.get(decode_claim(encode_claim(claim))) == value
    assert store.path(claim.sha256).stat().st_size < len(value)


def test_the_same_value_is_one_blob(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)

    assert store.put(b"abc") == store.put(b"abc")
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_a_missing_blob_says_which_and_where(tmp_path: Path) -> None:
    claim = ClaimCheck(sha256="ab" * 32, size=3)

    with pytest.raises(DecodeError, match=r"sha256:abab.* is missing"):
        BlobStore(tmp_path).get(claim)


@pytest.mark.parametrize("damage", [b"not zstandard", b""])
def test_a_damaged_blob_is_refused(tmp_path: Path, damage: bytes) -> None:
    store = BlobStore(tmp_path)
    claim = store.put(b"abc" * 100)
    store.path(claim.sha256).write_bytes(damage)

    with pytest.raises(DecodeError, match="cannot be read"):
        store.get(claim)


def test_a_blob_with_a_flipped_bit_gives_its_value_or_is_refused_whatever_size_it_then_claims(tmp_path: Path) -> None:
    store, value, num_refused = BlobStore(tmp_path), bytes(range(256)) * 3, 0
    claim = store.put(value)
    whole = store.path(claim.sha256).read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        store.path(claim.sha256).write_bytes(damaged)
        try:
            assert store.get(claim) == value
        except DecodeError:
            num_refused += 1
    assert num_refused > 7 * len(whole)


def test_a_blob_with_other_content_is_refused(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    claim, other = store.put(b"abc"), store.put(b"abd")
    store.path(claim.sha256).write_bytes(store.path(other.sha256).read_bytes())

    with pytest.raises(DecodeError, match="something else"):
        store.get(claim)


def test_a_larger_value_than_claimed_is_not_unpacked(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    claim = store.put(b"\0" * 1_000_000)

    with pytest.raises(DecodeError):
        store.get(ClaimCheck(sha256=claim.sha256, size=10))


@pytest.mark.parametrize("sha256", ["../../etc/passwd", "AB" * 32, "ab"])
def test_a_claim_check_cannot_name_any_other_file(tmp_path: Path, sha256: str) -> None:
    with pytest.raises(DecodeError, match="wanted a sha256"):
        BlobStore(tmp_path).get(ClaimCheck(sha256=sha256, size=3))
