"""Names of things that texts and tables are about: people, companies, places, goods; numbers as people write them."""

import random


def words(text: str, between: str = " ") -> list[str]:
    """Return the words of a text."""
    return text.split(between)


FIRST = words(
    "Amara Benjamin Carla Dmitri Eleanor Farid Greta Hassan Ingrid Joaquin Katarina Leopold Miriam Nikhil "
    "Octavia Patrick Quentin Rosalind Stefan Theodora Ulrich Valentina Winston Ximena Yusuf Zsofia Adrian "
    "Beatriz Cornelius Delphine Emeka Francesca Gideon Helena Ibrahim Jocelyn"
)
LAST = words(
    "Abernathy Bergstrom Castellano Drummond Eriksson Fitzgerald Goldberg Hernandez Ivanova Jankowski Kowalczyk "
    "Lindqvist Matsumoto Nakagawa Okonkwo Papadakis Quintero Rosenthal Silverstein Thackeray Underhill "
    "Villanueva Whitfield Yamamoto Zimmermann Achterberg Bellingham Carvalho Delacroix Esposito Fairweather "
    "Grosvenor Holloway Iyengar Kirchner Montgomery"
)
STEMS = words(
    "Alder Basalt Cobalt Delphi Ember Falcon Granite Harbor Indigo Juniper Kestrel Lantern Meridian Northgate "
    "Orchard Pinnacle Quarry Redwood Summit Tidewater Umbra Vantage Westbrook Yarrow Zephyr Ashford Brightwater "
    "Cedarline Dunmore Everfield Foxglove Greystone Highmark Ironbridge"
)
TRADES = words(
    "Logistics Foods Systems Energy Materials Health Retail Software Packaging Robotics Chemicals Mobility "
    "Textiles Instruments Properties Media Water Semiconductors"
)
FORMS = ("Inc", "Corp", "Ltd", "plc", "Holdings", "Group")
CITIES = words(
    "Rotterdam Lisbon Denver Osaka Nairobi Toronto Leipzig Marseille Gdansk Phoenix Santiago Perth Bergen Austin "
    "Valencia Antwerp Dublin Leeds Turin Malmo"
)
STREETS = words("Mill Station Harbour Kings Chestnut Foundry Canal Orchard Victoria Bridge Market Ashgrove")
GOODS = words(
    "stainless bolts M8|hydraulic hose 12 mm|LED panel 60x60|nitrile gloves (box)|thermal label roll|"
    "cable tray 3 m|ball bearing 6204|pallet wrap 500 mm|safety helmet|office chair|toner cartridge|USB-C dock|"
    "copper wire 2.5 mm|epoxy resin 5 kg|air filter F7|pressure gauge|conveyor belt 2 m|servo motor 400 W|"
    "barcode scanner|fire blanket",
    "|",
)
MONTHS = words("January February March April May June July August September October November December")
SMALL = words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
TENS = words("_ _ twenty thirty forty fifty sixty seventy eighty ninety")


def person(rng: random.Random) -> str:
    """Return somebody's name."""
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


def people(rng: random.Random, num: int) -> list[str]:
    """Return names of so many people, who share neither first nor last names; at most 36."""
    return [f"{a} {b}" for a, b in zip(rng.sample(FIRST, num), rng.sample(LAST, num), strict=True)]


def company(rng: random.Random) -> str:
    """Return a company's name."""
    return f"{rng.choice(STEMS)} {rng.choice(TRADES)} {rng.choice(FORMS)}"


def companies(rng: random.Random, num: int) -> list[str]:
    """Return names of so many companies, no two with one first word; at most 34."""
    return [f"{stem} {rng.choice(TRADES)} {rng.choice(FORMS)}" for stem in rng.sample(STEMS, num)]


def address(rng: random.Random) -> str:
    """Return a street and a town."""
    return f"{rng.randint(2, 240)} {rng.choice(STREETS)} Street, {rng.choice(CITIES)}"


def in_words(number: int) -> str:
    """Return a number from 0 to 999 as words."""
    if number < 20:
        return SMALL[number]
    if number < 100:
        tail = number % 10
        return TENS[number // 10] + (f"-{SMALL[tail]}" if tail else "")
    tail = number % 100
    return f"{SMALL[number // 100]} hundred" + (f" and {in_words(tail)}" if tail else "")


def half_up(number: float, places: int = 0) -> float:
    """Return a number rounded as on paper: halves away from 0, whatever a binary fraction makes of them."""
    from decimal import ROUND_HALF_UP, Decimal

    step = Decimal(1).scaleb(-places)
    return float(Decimal(repr(round(number, 9))).quantize(step, rounding=ROUND_HALF_UP))


def table(header: list[str], rows: list[list[str]], *, style: str = "text") -> str:
    """Return a table as `text` in columns, as `markdown` or as `csv`; in text, all but the first are set right."""
    if style == "csv":
        return "\n".join(",".join(f'"{cell}"' if "," in cell else cell for cell in row) for row in (header, *rows))
    if style == "markdown":
        rule = ["---", *["---:"] * (len(header) - 1)]
        return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    lines = []
    for row in (header, *rows):
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *rest]).rstrip())
    return "\n".join(lines)
