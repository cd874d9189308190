"""Least squares on a file: a line, its fit and what it predicts; several predictors; elasticities."""

import json
import math
import random
from typing import Any

import msgspec

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.tools import PYTHON, machine_tools, with_tools
from producers.domains.verdicts import closed, json_values, verdict
from schemas.tools import written

Vector = list[float]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured."""

    about: str
    y: str
    x: str
    z: str
    dummy: str
    """A column of yes and no."""
    bounds: tuple[tuple[float, float], tuple[float, float]]
    """Of `x` and `z`."""
    size: float
    """Of `y`, about."""


SETTINGS = (
    Setting(about="flats that were let", y="rent", x="area_m2", z="age_years", dummy="balcony",
            bounds=((22, 140), (1, 90)), size=900),
    Setting(about="delivery rounds", y="minutes", x="stops", z="distance_km", dummy="rain",
            bounds=((8, 90), (5, 120)), size=180),
    Setting(about="shops in a week", y="sales", x="advertising", z="price", dummy="holiday",
            bounds=((100, 2500), (3, 12)), size=5000),
    Setting(about="test plots of wheat", y="yield_kg", x="nitrogen_kg", z="rain_mm", dummy="irrigated",
            bounds=((20, 200), (150, 600)), size=6000),
    Setting(about="runs of a kiln", y="gas_m3", x="load_kg", z="outside_c", dummy="preheated",
            bounds=((200, 3000), (-8, 32)), size=400),
)  # fmt: skip


OPENERS = (
    "data.csv in your working directory has {num} {about}.",
    "In the working directory there is data.csv: {num} {about}.",
    "{num} {about} were written down in data.csv, in your working directory.",
)


def solved(matrix: list[Vector], right: Vector) -> Vector:
    """Return the solution of a system of linear equations, by elimination with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    num = len(rows)
    for column in range(num):
        pivot = max(range(column, num), key=lambda place: abs(rows[place][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for place in range(num):
            if place != column:
                factor = rows[place][column] / rows[column][column]
                rows[place] = [a - factor * b for a, b in zip(rows[place], rows[column], strict=True)]
    return [rows[place][num] / rows[place][place] for place in range(num)]


def fitted(predictors: list[Vector], y: Vector) -> Vector:
    """Return the coefficients of least squares, the constant first; predictors by row, without the constant."""
    rows = [[1.0, *row] for row in predictors]
    num = len(rows[0])
    matrix = [[math.fsum(row[a] * row[b] for row in rows) for b in range(num)] for a in range(num)]
    return solved(matrix, [math.fsum(row[a] * value for row, value in zip(rows, y, strict=True)) for a in range(num)])


def r_squared(predictors: list[Vector], y: Vector, coefficients: Vector) -> float:
    """Return the share of variance that a fit explains."""
    mean = sum(y) / len(y)
    left = sum(
        (value - coefficients[0] - sum(b * x for b, x in zip(coefficients[1:], row, strict=True))) ** 2
        for row, value in zip(predictors, y, strict=True)
    )
    return 1 - left / sum((value - mean) ** 2 for value in y)


def draw_data(rng: random.Random, of: Setting, num: int) -> list[dict[str, Any]]:
    """Draw rows in which `y` follows from the others but for noise; a few are marked as not to be used."""
    (low_x, high_x), (low_z, high_z) = of.bounds
    slope, bent, lift = rng.uniform(0.4, 1.2), rng.uniform(-0.5, 0.5), rng.uniform(-0.3, 0.3)
    rows = []
    for place in range(num):
        x, z = round(rng.uniform(low_x, high_x), 1), round(rng.uniform(low_z, high_z), 1)
        yes = rng.random() < 0.45
        share = 0.3 + slope * (x - low_x) / (high_x - low_x) + bent * (z - low_z) / (high_z - low_z) + lift * yes
        value = max(0.02, share + rng.gauss(0, 0.08)) * of.size
        valid = rng.random() > 0.12
        rows.append(
            {
                "no": place + 1,
                of.x: x,
                of.z: z,
                of.dummy: "yes" if yes else "no",
                of.y: round(value if valid else value * rng.uniform(2, 4), 1),
                "check": "ok" if valid else "failed",
            }
        )
    return rows  # fmt: skip


def wanted(of: Setting, rows: list[dict[str, Any]], level: int, at: tuple[float, float]) -> dict[str, float]:
    """Return the numbers that are asked for."""
    used = [row for row in rows if row["check"] == "ok"] if level >= 1 else rows
    y = [float(row[of.y]) for row in used]
    x = [[float(row[of.x])] for row in used]
    if level <= 1:
        fit = fitted(x, y)
        found = {"slope": fit[1], "intercept": fit[0]}
        more = {"r_squared": r_squared(x, y, fit), "prediction": fit[0] + fit[1] * at[0]}
        return found | more if level else found
    both = [[float(row[of.x]), float(row[of.z]), float(row[of.dummy] == "yes")] for row in used]
    names = ("intercept", of.x, of.z, of.dummy)
    if level == 2:
        fit = fitted(both, y)
        prediction = fit[0] + fit[1] * at[0] + fit[2] * at[1] + fit[3]
        return dict(zip(names, fit, strict=True)) | {"r_squared": r_squared(both, y, fit), "prediction": prediction}
    logs = [[math.log(row[0]), row[2], row[2] * math.log(row[0])] for row in both]
    log_y = [math.log(value) for value in y]
    fit = fitted(logs, log_y)
    return {
        "elasticity_no": fit[1],
        "elasticity_yes": fit[1] + fit[3],
        "r_squared": r_squared(logs, log_y, fit),
        "prediction": math.exp(fit[0] + fit[2] + (fit[1] + fit[3]) * math.log(at[0])),
    }


def in_words(of: Setting, level: int, at: tuple[float, float]) -> str:
    """Return what is asked for."""
    used = "Use only rows whose check is ok. " if level else ""
    if level <= 1:
        more = f", the R squared, and the prediction for {of.x} {at[0]}" if level else ""
        return f"{used}Fit {of.y} = intercept + slope x {of.x} by least squares. Give slope and intercept{more}."
    if level == 2:
        return (
            f"{used}Regress {of.y} on {of.x}, {of.z} and {of.dummy} (1 for yes, 0 for no), with a constant, by least "
            "squares. Give the coefficients under these names, the constant as intercept, the R squared as r_squared, "
            f"and as prediction that for {of.x} {at[0]}, {of.z} {at[1]}, {of.dummy} yes."
        )
    return (
        f"{used}Regress log {of.y} on log {of.x}, on {of.dummy} (1 for yes) and on their product, with a constant, by "
        f"least squares (natural logarithms). Give the elasticity of {of.y} with respect to {of.x} where {of.dummy} is "
        "no and where it is yes (elasticity_no, elasticity_yes), the R squared of that regression (r_squared), and as "
        f"prediction exp of the fitted logarithm for {of.x} {at[0]}, {of.dummy} yes."
    )


@domain(family="data", levels=4, max_tokens=1200)
def data_regression(rng: random.Random, level: int) -> Item:
    """Fit a regression to a file, and say what it predicts."""
    of = rng.choice(SETTINGS)
    rows = draw_data(rng, of, 16 + 6 * level)
    (low, high), (low_z, high_z) = of.bounds
    at = (round(rng.uniform(low, high), 1), round(rng.uniform(low_z, high_z), 1))
    used = [row for row in rows if row["check"] == "ok"]
    if len({row[of.dummy] for row in used}) < 2 or (level and len(used) == len(rows)):
        return data_regression(rng, level)
    values = {name: float(f"{value:.6g}") for name, value in wanted(of, rows, level, at).items()}
    text = "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows), ""])
    execution = machine_tools(PYTHON, files={"data.csv": text.encode()})
    begins = "\n".join(text.split("\n")[:4])
    question = (
        f"{rng.choice(OPENERS).format(num=len(rows), about=of.about)} It begins\n{begins}\n{in_words(of, level, at)} "
        f"Answer with one JSON object with the numbers {', '.join(values)}, to six significant digits."
    )
    first = next(iter(values))
    careless = {
        name: float(f"{value:.6g}")
        for name, value in wanted(of, [row | {"check": "ok"} for row in rows], level, at).items()
    }
    schema = closed({name: {"type": "number"} for name in values})
    return Item(
        prompt=with_tools(question, execution),
        gold=(written("python", code=program(of, level, at)), json.dumps(values)),
        verifier=verdict(json_values(values, schema, relative=1e-3)),
        execution=execution,
        max_turns=6,
        partials=((json.dumps(values | {first: values[first] * 1.2 + 1}),),),
        wrongs=((json.dumps(dict.fromkeys(values, 0)),), *([(json.dumps(careless),)] if far(values, careless) else [])),
        difficulty=4 + 5 * level,
    )


def far(values: dict[str, float], others: dict[str, float]) -> bool:
    """Return whether no number is near the other of its name."""
    return all(abs(others[name] - value) > 0.002 * abs(value) for name, value in values.items())


def program(of: Setting, level: int, at: tuple[float, float]) -> str:
    """Return a program that prints the coefficients; it solves the normal equations by Cramer's rule, unlike us."""
    features = {
        0: f"[1.0, float(r[{of.x!r}])]",
        1: f"[1.0, float(r[{of.x!r}])]",
        2: f"[1.0, float(r[{of.x!r}]), float(r[{of.z!r}]), float(r[{of.dummy!r}] == 'yes')]",
        3: f"[1.0, math.log(float(r[{of.x!r}])), float(r[{of.dummy!r}] == 'yes'), "
        f"(r[{of.dummy!r}] == 'yes') * math.log(float(r[{of.x!r}]))]",
    }[level]
    target = f"float(r[{of.y!r}])" if level < 3 else f"math.log(float(r[{of.y!r}]))"
    kept = "r['check'] == 'ok'" if level else "True"
    return (
        "import csv, math\nfrom fractions import Fraction as F\n"
        f"rows = [r for r in csv.DictReader(open('data.csv')) if {kept}]\n"
        f"X = [[F(v) for v in {features}] for r in rows]\ny = [F({target}) for r in rows]\n"
        "n = len(X[0])\n"
        "A = [[sum(r[i] * r[j] for r in X) for j in range(n)] for i in range(n)]\n"
        "b = [sum(r[i] * v for r, v in zip(X, y)) for i in range(n)]\n"
        "def det(m):\n"
        "    if len(m) == 1:\n        return m[0][0]\n"
        "    return sum((-1) ** j * m[0][j] * det([r[:j] + r[j + 1:] for r in m[1:]]) for j in range(len(m)))\n"
        "d = det(A)\n"
        "print([float(det([r[:k] + [v] + r[k + 1:] for r, v in zip(A, b)]) / d) for k in range(n)])\n"
        f"# to be evaluated at {at}\n"
    )
