"""Letters and notes with personal data in them: what is private is marked in the making, and what is not, too."""

import random
from types import MappingProxyType

import msgspec

from producers.domains.entities import CITIES, FIRST, LAST, MONTHS, STREETS, company

MARK = "[REDACTED]"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody whose data are private."""

    first: str
    last: str
    phone: str
    email: str
    street: str
    born: str
    number: str
    """Of an account or a file."""


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A text with its private pieces between `{{` and `}}`, and public ones that look alike between `((` and `))`."""

    marked: str
    names: tuple[str, ...]
    """First and last names of those whom it is about."""

    @property
    def shown(self) -> str:
        """Return it as it was written."""
        return without_marks(self.marked.replace("{{", "").replace("}}", ""))

    @property
    def redacted(self) -> str:
        """Return it as it may be published."""
        pieces = self.marked.split("{{")
        return without_marks(pieces[0] + "".join(MARK + piece.partition("}}")[2] for piece in pieces[1:]))

    @property
    def secrets(self) -> list[str]:
        """Return its private pieces, each once, and names in part."""
        return list(dict.fromkeys([*(piece.partition("}}")[0] for piece in self.marked.split("{{")[1:]), *self.names]))

    @property
    def public(self) -> list[str]:
        """Return its public pieces, each once."""
        return list(dict.fromkeys(piece.partition("))")[0] for piece in self.marked.split("((")[1:]))


def without_marks(text: str) -> str:
    """Return a text without the marks of public pieces."""
    return text.replace("((", "").replace("))", "")


def draw_subject(rng: random.Random, first: str, last: str) -> Subject:
    """Draw somebody's data."""
    place = rng.choice(("gmail.example", "post.example", "mailbox.example"))
    return Subject(
        first=first,
        last=last,
        phone=f"+{rng.randint(30, 49)} {rng.randint(100, 999)} {rng.randint(1000, 9999)} {rng.randint(100, 999)}",
        email=rng.choice((f"{first}.{last}@{place}", f"{first[0]}{last}{rng.randint(60, 99)}@{place}")).lower(),
        street=f"{rng.randint(2, 240)} {rng.choice(STREETS)} Street, {rng.choice(CITIES)}",
        born=f"{rng.randint(1, 28)} {rng.choice(MONTHS)} {rng.randint(1945, 2004)}",
        number=rng.choice((f"DE{rng.randint(10, 99)} {rng.randint(1000, 9999)} {rng.randint(1000, 9999)} "
                           f"{rng.randint(1000, 9999)}", f"PT-{rng.randint(100_000, 999_999)}-{rng.randint(10, 99)}")),
    )  # fmt: skip


SCENES = MappingProxyType({
    "ticket": (
        "Ticket opened by {{%(name)s}} on %(day)s.",
        ("The parcel with order number ((%(order)s)) was left at the wrong door.",
         "{{%(name)s}} can be reached at {{%(phone)s}} after six in the evening.",
         "A copy of the receipt went to {{%(email)s}}.",
         "The right address is {{%(street)s}}, as it was on the form.",
         "For the refund the customer gave {{%(number)s}}.",
         "To prove identity the date of birth {{%(born)s}} was checked."),
    ),
    "referral": (
        "Referral of %(day)s for {{%(name)s}}.",
        ("The patient, born on {{%(born)s}}, has had pain in the left knee since spring.",
         "Living at {{%(street)s}}, the patient asks for a clinic nearby.",
         "Please ring {{%(phone)s}} to fix a date.",
         "The file is kept under {{%(number)s}}.",
         "An X-ray of ((14 May)) shows no fracture; ibuprofen ((400 mg)) was prescribed.",
         "Reports may be sent to {{%(email)s}}."),
    ),
    "personnel note": (
        "Note for the file of {{%(name)s}}, %(day)s.",
        ("The contract as a technician was extended to ((31 December)).",
         "The salary goes to account {{%(number)s}} from now on.",
         "After the move the address is {{%(street)s}}.",
         "The private number for emergencies is {{%(phone)s}}.",
         "Payslips are wanted at {{%(email)s}}.",
         "The birthday, {{%(born)s}}, is not to be announced."),
    ),
})  # fmt: skip
"""How each kind of text begins, and what it may say of its subject."""
PUBLIC = (
    "Questions go to the front office of ((%(company)s)), ((%(line)s)).",
    "The case is handled by ((%(clerk)s)), who signs for the department.",
    "The office at ((%(office)s)) is open on weekdays.",
    "See also the public notice of ((%(notice)s)).",
    "Write to ((%(desk)s)) for forms.",
)
"""What looks private and is not."""
LATER = (
    "%(title)s {{%(last)s}} rang again and was calm.",
    "I told {{%(first)s}} that this takes a week.",
    "Colleagues know {{%(last)s}} well.",
    "Nobody but {{%(name)s}} has the key.",
    "The matter was explained to {{%(first)s}} at length.",
)
"""The same person again, by part of the name."""


def draw_letter(rng: random.Random, level: int) -> Letter:
    """Draw a text; higher levels have more people, public look-alikes, and names in part."""
    num = 1 + (level >= 1) + (level >= 3)
    firsts, lasts = rng.sample(FIRST, num + 1), rng.sample(LAST, num + 1)
    sentences: list[str] = []
    for first, last in zip(firsts[:num], lasts[:num], strict=True):
        opening, facts = SCENES[rng.choice(list(SCENES))]
        values = filling(rng, draw_subject(rng, first, last), f"{firsts[-1]} {lasts[-1]}")
        about = [opening, *rng.sample(facts, min(len(facts), 3 + level))]
        if level >= 1:
            about += rng.sample(PUBLIC, min(level + 1, 4))
        if level >= 2:
            about += rng.sample(LATER, level - 1)
        body = about[1:]
        rng.shuffle(body)
        sentences.append(" ".join(one % values for one in (about[0], *body)))
    return Letter(marked="\n\n".join(sentences), names=tuple(firsts[:num] + lasts[:num]))


def filling(rng: random.Random, one: Subject, clerk: str) -> dict[str, str]:
    """Return what stands in the places of sentences."""
    of = company(rng)
    site = f"{of.split()[0].lower()}.example"
    return {
        **{field: getattr(one, field) for field in one.__struct_fields__},
        "name": f"{one.first} {one.last}",
        "title": rng.choice(("Ms", "Mr", "Dr")),
        "day": f"{rng.randint(1, 28)} {rng.choice(MONTHS)} {rng.randint(2023, 2026)}",
        "order": f"{rng.randint(10**6, 10**7 - 1)}",
        "company": of,
        "line": f"+{rng.randint(30, 49)} {rng.randint(100, 999)} {rng.randint(10, 99)}-0",
        "clerk": clerk,
        "office": f"{rng.randint(2, 240)} {rng.choice(STREETS)} Street, {rng.choice(CITIES)}",
        "notice": f"{rng.randint(1, 28)} {rng.choice(MONTHS)} {rng.randint(2019, 2022)}",
        "desk": f"{rng.choice(('office', 'forms', 'service'))}@{site}",
    }
