"""Agreements made of clauses: each sets one term, is worded in two ways, and decides cases of daily life."""

import random
from types import MappingProxyType

import msgspec

from producers.domains.entities import CITIES, companies, in_words


class Topic(msgspec.Struct, frozen=True):
    """What a clause is about."""

    heading: str
    values: tuple[int, ...]
    """That its term may have."""
    wordings: tuple[str, str]
    """Two ways to say the same; `{n}` is the term."""
    cases: tuple[str, ...]
    """Situations that the clause decides, none of them in its words."""
    unit: str
    """What the term is a number of."""


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """A clause as it stands in an agreement."""

    topic: Topic
    value: int
    wording: int = 0
    in_words: bool = False

    @property
    def text(self) -> str:
        """Return it without its number."""
        number = f"{in_words(self.value)} ({self.value})" if self.in_words and self.value < 1000 else f"{self.value:,}"
        return f"{self.topic.heading}. {self.topic.wordings[self.wording].format(n=number)}"


def topic(heading: str, values: str, unit: str, wordings: tuple[str, str], *cases: str) -> Topic:
    """Return a topic; its values are written with blanks between."""
    return Topic(heading, tuple(map(int, values.split())), wordings, cases, unit)


TOPICS = (
    topic("Payment", "14 21 30 45 60", "days",
          ("The Customer pays each undisputed invoice within {n} days of the date on which it receives it.",
           "Invoices that are not disputed fall due {n} days after their receipt by the Customer."),
          "accounting received a bill this morning and asks how long it may wait before transferring the money",
          "the treasurer plans when the money for a bill that just came in has to leave the account"),
    topic("Late payment", "4 5 6 8 10 12", "per cent",
          ("Sums overdue bear interest at {n} per cent a year from the due date until they are paid.",
           "On any overdue sum interest accrues at an annual rate of {n} per cent, from the due date to payment."),
          "the Customer transferred the money three weeks after it had to, and the Supplier wants to charge for that",
          "a bill lay forgotten on a desk for two months and now an extra charge for the delay is claimed"),
    topic("Price review", "2 3 4 5 7", "per cent",
          ("The Supplier may raise prices once in a calendar year, by not more than {n} per cent.",
           "Once each calendar year prices may go up at the Supplier's choice; the increase is at most {n} per cent."),
          "the Supplier announces that everything will cost more from January",
          "a letter says that rates go up next year, and the buyer asks whether that much is allowed"),
    topic("Availability", "97 98 99", "per cent",
          ("The Supplier keeps the Service available for at least {n} per cent of each month, maintenance aside.",
           "Apart from maintenance, the Service is to be available {n} per cent of every month or more."),
          "the platform was down for a whole day last month and users ask what had been promised",
          "an outage in March raises the question how much of it had to be tolerated"),
    topic("Service credits", "5 10 15 20 25", "per cent",
          ("For a month in which availability is missed, the Supplier credits {n} per cent of that month's fee.",
           "Where availability is missed in a month, {n} per cent of the fee for that month are credited."),
          "after the outage the Customer asks how much of what it paid comes back",
          "the finance team wants to book the refund for the month with the long downtime"),
    topic("Acceptance", "5 7 10 15 20", "days",
          ("A deliverable is accepted unless the Customer rejects it in writing within {n} days of delivery.",
           "The Customer may reject a deliverable in writing within {n} days of delivery; after that it is accepted."),
          "a report was handed over, nobody has checked it yet, and somebody asks until when it can be turned down",
          "the team found faults in what was handed over last week and wonders whether it is too late to refuse it"),
    topic("Warranty", "6 12 18 24 36", "months",
          ("The Supplier repairs free of charge every defect reported within {n} months of acceptance.",
           "Defects that are reported in the {n} months after acceptance are repaired at the Supplier's cost."),
          "a part that was taken over last year stops working, and the question is who pays for mending it",
          "half a year after everything had been approved a fault shows up and nobody wants to pay"),
    topic("Confidentiality", "2 3 5 7 10", "years",
          ("Neither party discloses the other's confidential information, during the term and for {n} years after it.",
           "Confidential information of the other party is kept secret during the term and {n} years beyond."),
          "a former partner talks about the other's plans at a conference after the contract has ended",
          "an engineer wants to publish what was learnt from the other side's drawings once the work is over"),
    topic("Personal data", "24 36 48 72", "hours",
          ("The Supplier reports any loss of personal data to the Customer within {n} hours of noticing it.",
           "Within {n} hours of noticing a loss of personal data the Supplier tells the Customer of it."),
          "a laptop with addresses of clients was stolen from the Supplier's office last night",
          "an attacker copied a list of the Customer's staff from the Supplier's server"),
    topic("Liability", "250000 500000 1000000 2000000 5000000", "euros",
          ("Except for intent, neither party is liable for more than EUR {n} in any contract year.",
           "Liability of either party is limited to EUR {n} a contract year, intent excepted."),
          "a blunder by the Supplier cost the Customer a fortune and lawyers ask how much can be claimed",
          "the damage from a careless mistake is far above the fees, and the question is where the claim ends"),
    topic("Insurance", "1000000 2000000 3000000 10000000", "euros",
          ("The Supplier holds public liability insurance of at least EUR {n} a claim.",
           "Public liability cover of EUR {n} a claim or more is to be held by the Supplier."),
          "procurement asks for how much the Supplier must be covered before work begins",
          "the Supplier's broker wants to know which cover the contract demands"),
    topic("Termination for convenience", "30 60 90 120 180", "days",
          ("Either party may end this Agreement without cause on {n} days' written notice.",
           "This Agreement may be ended by either party at any time, for no reason, on written notice of {n} days."),
          "the Customer is content but wants to leave since it has found something cheaper",
          "the Supplier gives up this line of business and wants out though nobody has done anything wrong"),
    topic("Termination for breach", "10 14 20 28 30", "days",
          ("A party may end this Agreement at once where the other does not mend a material breach within {n} days of "
           "being told of it.",
           "Where a material breach is not mended in the {n} days after it was pointed out, the other party may end "
           "this Agreement at once."),
          "the Supplier has violated its main duty, was warned, and the Customer asks how long it must wait to quit",
          "a serious violation was notified last week and has still not been put right"),
    topic("Non-solicitation", "6 9 12 18 24", "months",
          ("During the term and for {n} months after it neither party hires the other's staff who worked on this.",
           "Neither party takes on staff of the other who worked hereunder, until {n} months after the term."),
          "the Customer would like to offer a job to the Supplier's project lead after the end of the contract",
          "a consultant of the Supplier applies at the Customer soon after the project has ended"),
    topic("Force majeure", "30 45 60 90", "days",
          ("A party hindered by events beyond its control is excused; after {n} days the other may end this Agreement.",
           "Events beyond its control excuse a party; once they last {n} days the other may end this Agreement."),
          "a flood has closed the Supplier's plant and nobody knows when it opens again",
          "a strike at the port holds everything up and the Customer asks when it may walk away"),
    topic("Audit", "5 10 15 20", "days",
          ("On {n} days' notice the Customer may inspect the Supplier's records of its charges, once a year.",
           "The Customer may, once a year and with {n} days' notice, inspect the Supplier's records of charges."),
          "the Customer doubts the hours that it was charged for and wants to look at the books",
          "internal control wants to go through the Supplier's timesheets"),
    topic("Retention of records", "3 5 6 7 10", "years",
          ("The Supplier keeps records of its charges for {n} years.",
           "Records of charges are kept by the Supplier for {n} years."),
          "the Supplier wants to shred its old timesheets to save space",
          "an archive is full and somebody asks when proofs of what was billed may be thrown away"),
    topic("Minimum volume", "100 250 500 750 900", "units",
          ("The Customer orders at least {n} units in each quarter.",
           "In every quarter the Customer's orders come to {n} units or more."),
          "sales were poor and the buyer would like to order next to nothing this quarter",
          "the warehouse is full and purchasing asks how little it may take until June"),
    topic("Delivery", "3 5 7 10 14", "days",
          ("The Supplier delivers within {n} days of confirming an order.",
           "Goods are delivered not later than {n} days after an order was confirmed."),
          "the shop asks when what was ordered and confirmed on Monday has to be there",
          "a confirmed order has still not come and the buyer asks whether it is late yet"),
    topic("Exit assistance", "30 60 90 180", "days",
          ("After the end of this Agreement the Supplier helps to hand over to a successor for {n} days.",
           "For {n} days after this Agreement has ended the Supplier assists in the move to a successor."),
          "the contract is over and the new provider needs the old one's help to take over",
          "the Customer changes provider and asks how long the former one has to stay at hand"),
)  # fmt: skip
BOILERPLATE = MappingProxyType({
    "Definitions": "Words with capital letters have the meanings given to them in the Order.",
    "Entire agreement": "This Agreement replaces all earlier understandings on its subject.",
    "Assignment": "Neither party transfers this Agreement without the other's written consent.",
    "Severability": "Where a provision is void the others stay in force.",
    "Counterparts": "This Agreement may be signed in counterparts.",
    "Waiver": "A right that is not exercised is not given up by that.",
    "Relationship": "Nothing here makes the parties partners, nor one the other's agent.",
})  # fmt: skip


def draw_clauses(rng: random.Random, num: int) -> list[Clause]:
    """Draw so many clauses on different topics; at most 20."""
    return [
        Clause(topic=one, value=rng.choice(one.values), wording=rng.randrange(2), in_words=rng.random() < 0.3)
        for one in rng.sample(TOPICS, num)
    ]


def numbered(texts: list[str]) -> dict[str, str]:
    """Return texts by clause number: three to a section."""
    return {f"{place // 3 + 1}.{place % 3 + 1}": text for place, text in enumerate(texts)}


def with_boilerplate(rng: random.Random, texts: list[str], num: int) -> list[str]:
    """Return texts with so many others among them that set no term; at most 7."""
    mixed = list(texts)
    for heading in rng.sample(list(BOILERPLATE), num):
        mixed.insert(rng.randint(0, len(mixed)), f"{heading}. {BOILERPLATE[heading]}")
    return mixed


def head(rng: random.Random) -> str:
    """Return how an agreement begins."""
    supplier, customer = companies(rng, 2)
    kind = rng.choice(("MASTER SERVICES AGREEMENT", "SUPPLY AGREEMENT", "FRAMEWORK AGREEMENT", "HOSTING AGREEMENT"))
    return (
        f"{kind} of {rng.randint(1, 28)} {rng.choice(('March', 'June', 'October'))} {rng.randint(2019, 2026)} between "
        f"{supplier}, {rng.choice(CITIES)} (the Supplier) and {customer}, {rng.choice(CITIES)} (the Customer)"
    )


def written(title: str, clauses: dict[str, str]) -> str:
    """Return an agreement as a text."""
    return f"{title}\n\n" + "\n".join(f"{number} {text}" for number, text in clauses.items())
