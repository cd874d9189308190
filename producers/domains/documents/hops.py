"""Questions whose answer is several pages away."""

import random

from producers.domains.catalogue import domain
from producers.domains.documents.dossiers import CHAINS, PROJECTS, asked, draw_dossier, followed, written
from producers.domains.interface import Item
from producers.domains.verdicts import in_tags, not_longer, shape, tagged_set, tagged_word, verdict

RULES = (
    "What no longer holds does not count. Cite the pages whose facts lead there.",
    "Only what holds today counts. Name every page that one has to read to know it.",
    "Answer by the dossier alone, as things stand now, and say on which pages the steps are found.",
)


@domain(family="documents", levels=4, max_tokens=500)
def documents_long_multi_hop(rng: random.Random, level: int) -> Item:
    """Answer a question by facts that are spread over the pages of a dossier."""
    dossier, chain = draw_dossier(rng, level), CHAINS[level]
    if chain[-1] == "river" and rng.random() < 0.5:
        chain = (*chain[:-1], "mayor")
    start = rng.choice([name for name in PROJECTS if name in dossier.kinds])
    steps = followed(dossier, start, chain)
    if len(steps) <= len(chain):
        return documents_long_multi_hop(rng, level)
    answer, visited = steps[-1], steps[:-1]
    misled = [dossier.former[pair] for pair in zip(visited, chain, strict=True) if pair in dossier.former]
    if len(set(visited)) < len(visited) or (level == 3 and not misled):
        return documents_long_multi_hop(rng, level)
    pages = [str(dossier.pages[name]) for name in visited]
    text = written(rng, dossier, 2 + level)
    question = f"What is {asked(start, chain)}?" if chain[-1] not in {"leader", "mentor", "mayor"} else (
        f"Who is {asked(start, chain)}?"
    )  # fmt: skip
    too_many = not_longer("pages", 5 * len(pages) + 6, 5 * len(pages) + 16)
    gone = [name for name in (*visited[1:], *misled) if name != answer]
    elsewhere = next(str(page) for page in dossier.pages.values() if str(page) not in pages)
    return Item(
        prompt=f"{text}\n\n{question} {rng.choice(RULES)}\n"
        f"{shape(answer='the name alone', pages='page numbers, with commas between')}",
        gold=(f"Page by page: {' -> '.join(steps)}.\n{in_tags(answer=answer, pages=', '.join(pages))}",),
        verifier=verdict(
            tagged_word("answer", [answer, f"the {answer}", f"{answer} river"], 0.8),
            tagged_set("pages", pages, 0.2),
            too_many,
        ),
        partials=((in_tags(answer="unknown", pages=", ".join(pages)),),),
        wrongs=tuple((in_tags(answer=name, pages=elsewhere),) for name in gone[:3]),
        difficulty=4 * len(chain) + len(dossier.pages),
    )
