"""Papers to be put where they belong, by rules."""

import random

import msgspec

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.terminal.verdicts import asked, bash, file_is, machine, still_there
from schemas.tasks import VerifierSpec

KINDS = ("invoice", "contract", "receipt", "letter", "offer")
CLIENTS = ("Acme Ltd", "Blue Fox", "Cobalt AG", "Dune & Co", "Elm Street", "Fjord Lines")
FOLDERS = ("inbox", "downloads", "scan", "desktop")
LAYOUTS = (
    ("archive/KIND/YYYY-MM/CLIENT-NUMBER.txt", "archive/{kind}/{year}-{month:02d}/{client}-{number}.txt"),
    ("archive/CLIENT/YYYY/KIND-NUMBER.txt", "archive/{client}/{year}/{kind}-{number}.txt"),
    ("papers/YYYY/KIND/YYYYMM-CLIENT-NUMBER.txt", "papers/{year}/{kind}/{year}{month:02d}-{client}-{number}.txt"),
    ("papers/CLIENT/KIND-YYYY-MM-DD-NUMBER.txt", "papers/{client}/{kind}-{year}-{month:02d}-{day:02d}-{number}.txt"),
)


class Paper(msgspec.Struct, frozen=True):
    """One paper: where it is, and what it says."""

    path: str
    kind: str
    client: str
    year: int
    month: int
    day: int
    number: int

    @property
    def text(self) -> str:
        """Return its content."""
        return (
            f"Type: {self.kind.title()}\nClient: {self.client}\nDate: {self.day:02d}.{self.month:02d}.{self.year}\n"
            f"Number: {self.number}\n\nPlease find the details of {self.kind} {self.number} enclosed.\n"
        )

    def place(self, layout: str) -> str:
        """Return where it belongs."""
        client = self.client.lower().replace(" & ", "-").replace(" ", "-")
        return layout.format(
            kind=self.kind, client=client, year=self.year, month=self.month, day=self.day, number=self.number
        )


@domain(family="terminal", levels=4, max_tokens=768)
def terminal_files(rng: random.Random, level: int) -> Item:
    """Move and rename papers by what stands in them."""
    papers = draw_papers(rng, 3 + 2 * level)
    shape, layout = rng.choice(LAYOUTS)
    files = {paper.path: paper.text for paper in papers}
    drafts = [f"{rng.choice(FOLDERS)}/draft_{rng.randint(10, 99)}.tmp" for _ in range(level)]
    files |= dict.fromkeys(drafts, "draft, do not keep\n")
    copies = [f"{paper.path}.bak" for paper in papers[: level // 2]]
    files |= {path: paper.text for path, paper in zip(copies, papers, strict=False)}
    execution = machine(files)
    places = {paper.path: paper.place(layout) for paper in papers}
    extra = " Delete files that end in .tmp" if drafts else ""
    extra += " or .bak." if copies else "." * bool(drafts)
    question = (
        f"Papers lie in several folders here. Move each to {shape}, by what stands in its first lines: the type in "
        "small letters, the client in small letters with - for spaces and ' & ', the date, and the number. Leave no "
        f"paper where it was, and do not change what they say.{extra} Then answer with how many papers you moved."
    )
    moves = [f"mkdir -p {new.rpartition('/')[0]} && mv {old} {new}" for old, new in places.items()]
    removes = [f"rm {' '.join([*drafts, *copies])}"] if drafts else []
    stale = [*places, *drafts, *copies]
    parts = [file_is(places[paper.path], paper.text, name=f"paper {paper.number}") for paper in papers]
    return Item(
        prompt=asked(rng, question, execution),
        gold=(bash("find . -type f | xargs head -n 4"), bash("\n".join([*moves, *removes])), str(len(papers))),
        verifier=VerifierSpec(kind="parts", parts=(*parts, *(still_there(path, 0.5 / len(stale)) for path in stale))),
        execution=execution,
        max_turns=6 + 2 * level,
        partials=((bash("\n".join(moves[: len(moves) // 2 + 1])), "done"),),
        wrongs=((bash("ls -R"), str(len(papers))), (bash("mkdir archive; mv */*.txt archive"), "done")),
        difficulty=len(stale),
    )


def draw_papers(rng: random.Random, num: int) -> list[Paper]:
    """Return papers with names that tell little."""
    numbers = rng.sample(range(1000, 9999), num)
    return [
        Paper(
            path=f"{rng.choice(FOLDERS)}/{rng.choice(('scan', 'doc', 'IMG', 'new'))}_{index}{rng.randint(10, 99)}.txt",
            kind=rng.choice(KINDS),
            client=rng.choice(CLIENTS),
            year=rng.choice((2024, 2025, 2026)),
            month=rng.randint(1, 12),
            day=rng.randint(1, 28),
            number=number,
        )
        for index, number in enumerate(numbers)
    ]
