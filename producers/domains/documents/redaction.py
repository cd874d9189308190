"""Texts from which personal data have to go, and nothing else."""

import random

from producers.domains.catalogue import domain
from producers.domains.documents.letters import MARK, Letter, draw_letter
from producers.domains.interface import Item
from producers.domains.verdicts import in_tags, verdict
from schemas.parts import Part

OPENERS = (
    "Redact this text for publication.",
    "This goes to the press office; take the personal data out of it first.",
    "Before it is shown in a training course, make this text anonymous.",
    "A request for access to files was granted, but private data have to be blacked out here.",
)
RULES = (
    "Private data of the people whom it is about have to go wherever they stand: their names, also first or last name "
    "alone, phone numbers, e-mail and postal addresses, dates of birth, and numbers of their accounts and files. Put "
    f"{MARK} in the place of each such piece. Everything else stays as it is, word for word: names and contact data of "
    "companies, offices and of the staff who handle the case, order numbers and other dates. Write the redacted text "
    "between <redacted> and </redacted>."
)


@domain(family="documents", levels=4, max_tokens=900)
def documents_redaction(rng: random.Random, level: int) -> Item:
    """Take personal data out of a text and leave the rest of it."""
    letter = draw_letter(rng, level)
    secrets, public, redacted = letter.secrets, letter.public, letter.redacted
    left = bare(redacted)
    if not public or any(bare(secret) in left for secret in secrets):
        return documents_redaction(rng, level)
    one = rng.choice([secret for secret in secrets if "{{" + secret + "}}" in letter.marked])
    leaking = Letter(marked=letter.marked.replace("{{" + one + "}}", one), names=()).redacted
    loose = {"loose": True}
    parts = (
        Part(kind="contains", name="leaks", role="veto", extract="tag:redacted", expected=secrets,
             options={"any": True} | loose),
        Part(kind="rouge_l", name="kept", extract="tag:redacted", expected=redacted, weight=0.6,
             options={"floor": 0.75}),
        Part(kind="contains", name="public", extract="tag:redacted", expected=public, weight=0.4, after=0.05),
    )  # fmt: skip
    over = redacted
    for piece in public[: max(1, len(public) // 2)]:
        over = over.replace(piece, MARK)
    return Item(
        prompt=f"{rng.choice(OPENERS)} {RULES}\n\n{letter.shown}",
        gold=(in_tags(redacted=redacted),),
        verifier=verdict(*parts),
        partials=((in_tags(redacted=over),),),
        wrongs=(
            (in_tags(redacted=letter.shown),),
            (in_tags(redacted=leaking),),
            (in_tags(redacted=" ".join([MARK] * 40)),),
            (in_tags(redacted=" ".join(public)),),
        ),
        difficulty=2 * len(secrets) + len(public) + len(letter.shown) / 200,
    )


def bare(text: str) -> str:
    """Return a text as leaks are looked for in it: letters and digits alone."""
    return "".join(filter(str.isalnum, text.casefold()))
