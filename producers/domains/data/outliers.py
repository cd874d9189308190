"""Readings of which some are outliers by a rule that is stated."""

import random
from collections.abc import Callable

import msgspec

from producers.domains.catalogue import domain
from producers.domains.data.statistics import deviation, median, median_deviation, quantile
from producers.domains.interface import Item
from producers.domains.tools import PYTHON, machine_tools, with_tools
from producers.domains.verdicts import not_longer, tagged_set, verdict
from schemas.tools import written

SENSORS = ("pump A", "pump B", "boiler", "chiller", "intake", "exhaust")
QUANTITIES = (
    ("temperature_c", 60.0, 4.0),
    ("pressure_bar", 6.0, 0.4),
    ("vibration_mm_s", 3.2, 0.5),
    ("flow_l_min", 240.0, 22.0),
)
Reading = tuple[str, str, float, str]
"""Id, sensor, value, status."""


Distance = Callable[[float], float]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a reading an outlier among those that it is compared with."""

    words: str
    """`{k}` is how far out is too far."""
    limits: tuple[float, ...]
    far: Callable[[list[float]], Distance]
    """From values, how far one is out; beyond `k` it is an outlier."""
    code: str
    """The same as an expression of Python on `x` and `value`."""


def score(values: list[float]) -> Distance:
    """Measure from the mean, in deviations."""
    mean, far = sum(values) / len(values), deviation(values)
    return lambda value: abs(value - mean) / far


def fences(values: list[float]) -> Distance:
    """Measure beyond the quartiles, in their distance."""
    low, high = quantile(values, 0.25), quantile(values, 0.75)
    return lambda value: max(low - value, value - high) / (high - low)


def robust(values: list[float]) -> Distance:
    """Measure from the median by the modified z-score."""
    middle, scatter = median(values), median_deviation(values)
    return lambda value: 0.6745 * abs(value - middle) / scatter


PURPOSES = ("", " of the last week, to be checked before they are used", ", among which maintenance looks for faults")
Z = Rule(
    limits=(2.5, 3.0),
    words="is more than {k} sample standard deviations from the mean",
    far=score,
    code="abs(value - statistics.fmean(x)) / statistics.stdev(x)",
)
TUKEY = Rule(
    limits=(1.5, 2.0, 2.5),
    words="is more than {k} times the interquartile range below the first or above the third quartile (quartiles by "
    "linear interpolation, as NumPy's default)",
    far=fences,
    code="max(q[0] - value, value - q[2]) / (q[2] - q[0])",
)
MAD = Rule(
    limits=(3.0, 3.5, 5.0),
    words="has a modified z-score 0.6745 |x - median| / MAD above {k}, MAD being the median of |x - median|",
    far=robust,
    code="0.6745 * abs(value - statistics.median(x)) / mad",
)
PROGRAM = """\
import csv, statistics
with open('readings.csv') as file:
    rows = [row for row in csv.DictReader(file) if {condition}]
found = []
for row in rows:
    x = [float(one[{quantity!r}]) for one in rows if {same}]
    q = statistics.quantiles(x, n=4, method='inclusive')
    mad = statistics.median([abs(a - statistics.median(x)) for a in x])
    value = float(row[{quantity!r}])
    if {code} > {k}:
        found.append(row['id'])
print(', '.join(found))
"""


@domain(family="data", levels=4, max_tokens=700)
def data_outlier(rng: random.Random, level: int) -> Item:
    """Find the readings that are outliers by a rule."""
    quantity, centre, spread = rng.choice(QUANTITIES)
    sensors = rng.sample(SENSORS, 1 + level)
    by_sensor, with_status = level >= 1, level >= 2
    rule = ((Z,), (TUKEY, Z), (TUKEY, MAD), (MAD, TUKEY))[level][rng.random() < 0.5 if level else 0]
    readings = draw_readings(rng, sensors, centre, spread, 24 if level == 0 else 18, with_status)
    counted = [one for one in readings if one[3] == "ok"] if with_status else readings
    k = rng.choice(rule.limits)
    found, nearest = outliers(counted, rule, by_sensor, k)
    if not 2 <= len(found) <= 9 or nearest < 0.01:
        return data_outlier(rng, level)
    everything = [one[0] for one in readings]
    inliers = [one for one in everything if one not in found]
    text = "\n".join([f"id,sensor,{quantity},status", *(",".join(map(str, one)) for one in readings), ""])
    execution = machine_tools(PYTHON, files={"readings.csv": text.encode()})
    begins = "\n".join(text.split("\n")[:5])
    question = (
        f"readings.csv in your working directory has {len(readings)} readings{rng.choice(PURPOSES)}. It "
        f"begins\n{begins}\nA reading is an outlier if it {rule.words.format(k=k)}"
        + (", compared with all readings of its own sensor, itself included" if by_sensor else ", all readings taken")
        + (". Only readings with status ok count, in every respect." if with_status else ".")
        + " List the ids of the outliers between <ids> and </ids>, separated by commas."
    )
    condition = "row['status'] == 'ok'" if with_status else "True"
    same = "one['sensor'] == row['sensor']" if by_sensor else "True"
    right = PROGRAM.format(quantity=quantity, condition=condition, same=same, code=rule.code, k=k)
    return Item(
        prompt=with_tools(question, execution),
        gold=(written("python", code=right), said(found)),
        verifier=verdict(tagged_set("ids", found), not_longer("ids", 7 * len(found) + 35, 7 * len(found) + 70)),
        execution=execution,
        max_turns=6,
        partials=((said(found[1:]),),),
        wrongs=((said(inliers[:3]),), (said(["none"]),), (said(everything),)),
        difficulty=len(readings) / 6 + 4 * level,
    )


def said(ids: list[str]) -> str:
    """Return an answer."""
    return f"<ids>{', '.join(ids)}</ids>"


def draw_readings(  # noqa: PLR0917  as they are read
    rng: random.Random, sensors: list[str], centre: float, spread: float, num: int, with_status: bool
) -> list[Reading]:
    """Draw readings of sensors that differ in level and scatter, a few of them far out."""
    readings: list[Reading] = []
    for place, sensor in enumerate(sensors):
        middle, scatter = centre * (1 + 0.35 * place), spread * rng.uniform(0.6, 1.5)
        far = set(rng.sample(range(num), rng.randint(1, 2)))
        for reading in range(num):
            value = rng.gauss(middle, scatter) if reading not in far else middle + rng.choice((-1, 1)) * scatter * (
                rng.uniform(7, 11)
            )  # fmt: skip
            status = rng.choice(("ok", "ok", "ok", "ok", "test")) if with_status else "ok"
            readings.append(("", sensor, round(value, 2), status))
    rng.shuffle(readings)
    first = rng.randint(100, 900)
    return [(f"m{first + place}", *one[1:]) for place, one in enumerate(readings)]


def outliers(readings: list[Reading], rule: Rule, by_sensor: bool, k: float) -> tuple[list[str], float]:
    """Return the ids of outliers, and how near the nearest reading is to being one, or to being none."""
    values: dict[str, list[float]] = {}
    for _, sensor, value, _ in readings:
        values.setdefault(sensor if by_sensor else "", []).append(value)
    measures = {name: rule.far(group) for name, group in values.items()}
    far = [measures[sensor if by_sensor else ""](value) for _, sensor, value, _ in readings]
    found = [one[0] for one, distance in zip(readings, far, strict=True) if distance > k]
    return found, min(abs(distance - k) for distance in far)
