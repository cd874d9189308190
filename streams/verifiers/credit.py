"""How much of an expected text is there. Bytes are compared, so that no two spellings of a thing are taken for one.

White space is stripped around the whole and at the ends of lines; everything else counts. Shares are of the longer
side: neither repeating nor padding an answer gains anything. All of it takes time linear in the length.
"""

from functools import lru_cache

from schemas.tasks import VerifierSpec

WHITE_SPACE = b" \t\r\n\v\f"


def normalise(content: bytes) -> bytes:
    """Return the content without white space around it and at the ends of its lines."""
    content = content.strip(WHITE_SPACE)
    if b"\n" not in content:
        return content
    return b"\n".join(line.rstrip(WHITE_SPACE) for line in content.split(b"\n"))


@lru_cache(maxsize=256)
def expected_of(text: str) -> bytes:
    """Return an expected text as it is compared: a group's rollouts all have one."""
    return normalise(text.encode())


def share_of(spec: VerifierSpec, answer: bytes) -> float:
    """Return the credit in [0, 1] that the spec gives an answer; 1 exactly where it is the expected one."""
    expected, got = expected_of(spec.expected), normalise(answer)
    if got == expected:
        return 1.0
    match spec.partial:
        case "lines":
            return share_of_lines(expected, got)
        case "prefix":
            return common_length(expected, got) / max(len(expected), len(got))
    return 0.0


def share_of_lines(expected: bytes, got: bytes) -> float:
    """Return the share of lines that are equal, place by place."""
    expected_lines, got_lines = expected.split(b"\n"), got.split(b"\n")
    num_equal = sum(a == b for a, b in zip(expected_lines, got_lines, strict=False))
    return num_equal / max(len(expected_lines), len(got_lines))


def common_length(first: bytes, second: bytes) -> int:
    """Return the length of the beginning that both have in common."""
    shorter = min(len(first), len(second))
    return next((i for i in range(shorter) if first[i] != second[i]), shorter)
