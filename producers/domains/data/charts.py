"""Charts that are asked for in words, as specifications of Vega-Lite."""

import json
import random
from typing import Any

import msgspec

from producers.domains.catalogue import domain
from producers.domains.data.records import TRADES, Row, Trade, as_csv, draw_rows
from producers.domains.data.statistics import as_number
from producers.domains.interface import Item
from producers.domains.verdicts import verdict
from schemas.parts import Part

Spec = dict[str, Any]
NOMINAL = ["nominal", "ordinal"]
AGGREGATES = {"sum": "total", "mean": "average", "median": "median", "max": "highest"}
UNITS = {"yearmonth": "month", "yearmonthdate": "day", "yearweek": "week"}


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A chart in words, a specification of it, and what any specification of it has."""

    words: str
    spec: Spec
    checks: dict[str, tuple[Spec, float]]
    """By name, a JSON schema and what it counts for."""


OPENERS = ("Write", "For the weekly report we need", "Please draw", "The dashboard is to show")


def has(path: str, schema: Spec) -> Spec:
    """Return the schema of an object that has something at a path of names with points between."""
    for name in reversed(path.split(".")):
        schema = {"type": "object", "properties": {name: schema}, "required": [name]}
    return schema


def marked(mark: str) -> Spec:
    """Return the schema of a specification with a mark, short or long."""
    return has("mark", {"anyOf": [{"const": mark}, has("type", {"const": mark})]})


def channel(name: str, **wanted: Any) -> Spec:
    """Return the schema of a specification whose channel has these values; a list is any of them."""
    values = {key: {"enum": value} if isinstance(value, list) else {"const": value} for key, value in wanted.items()}
    return has(f"encoding.{name}", {"type": "object", "properties": values, "required": list(values)})


def titled(name: str, title: str) -> Spec:
    """Return the schema of a specification whose channel has a title, its own or its axis'."""
    wanted: Spec = {"const": title}
    return has(f"encoding.{name}", {"anyOf": [has("title", wanted), has("axis.title", wanted)]})


def bars(rng: random.Random, trade: Trade) -> Chart:
    """Ask for bars of an aggregate by category, sorted."""
    group, number, how = rng.choice(list(trade.groups)), rng.choice(list(trade.numbers)), rng.choice(list(AGGREGATES))
    x, y = rng.choice((("x", "y"), ("y", "x")))
    order = rng.choice((f"-{y}", y))
    return Chart(
        words=f"a bar chart of the {AGGREGATES[how]} {number} by {group}, with {group} along the "
        f"{'horizontal' if x == 'x' else 'vertical'} axis, sorted so that the "
        f"{'largest' if order[0] == '-' else 'smallest'} bar comes first",
        spec={
            "mark": "bar",
            "encoding": {
                x: {"field": group, "type": "nominal", "sort": order},
                y: {"aggregate": how, "field": number, "type": "quantitative"},
            },
        },
        checks={
            "mark": (marked("bar"), 1),
            "category": (channel(x, field=group, type=NOMINAL), 2),
            "amount": (channel(y, field=number, aggregate=[how, "average"] if how == "mean" else how), 2),
            "order": (has(f"encoding.{x}.sort", sorted_by(y, order, how, number)), 1),
        },
    )


def sorted_by(y: str, order: str, how: str, number: str) -> Spec:
    """Return the schema of an order by the other axis, short or long."""
    direction = "descending" if order[0] == "-" else "ascending"
    short: list[Spec] = [{"const": order}]
    by_field = {
        "field": {"const": number},
        "op": {"enum": [how, "average"] if how == "mean" else [how]},
        "order": {"const": direction},
    }
    by_channel = {"encoding": {"const": y}, "order": {"const": direction}}
    for long in (by_field, by_channel):
        needed = [name for name in long if name != "order" or direction == "descending"]
        short.append({"type": "object", "properties": long, "required": needed})
    return {"anyOf": short}


def lines(rng: random.Random, trade: Trade) -> Chart:
    """Ask for lines over time by category, of some of the rows."""
    (group, other), number = rng.sample(list(trade.groups), 2), rng.choice(list(trade.numbers))
    how, unit = rng.choice(("sum", "mean")), rng.choice(list(UNITS))
    value = rng.choice(trade.groups[other])
    return Chart(
        words=f"a line chart of the {AGGREGATES[how]} {number} per {UNITS[unit]} (of a calendar year, so with timeUnit "
        f"{unit}), one line in its own colour for each {group}, of the rows whose {other} is {value} only (by a filter "
        "in transform)",
        spec={
            "transform": [{"filter": f"datum.{other} === '{value}'"}],
            "mark": "line",
            "encoding": {
                "x": {"field": "date", "type": "temporal", "timeUnit": unit},
                "y": {"field": number, "type": "quantitative", "aggregate": how},
                "color": {"field": group, "type": "nominal"},
            },
        },
        checks={
            "mark": (marked("line"), 1),
            "time": (channel("x", field="date", type=["temporal", "ordinal"], timeUnit=unit), 2),
            "amount": (channel("y", field=number, aggregate=[how, "average"] if how == "mean" else how), 2),
            "colour": (channel("color", field=group), 2),
            "filter": (has("transform", {"type": "array", "contains": filtered(other, value)}), 2),
        },
    )


def filtered(name: str, value: str) -> Spec:
    """Return the schema of a filter for one value, as an expression or as an object."""
    quoted = "['\"]" + value + "['\"]"
    access = rf"datum(\.{name}|\[['\"]{name}['\"]\])"
    expression = {"type": "string", "pattern": rf"^\s*\(?{access}\s*={{2,3}}\s*{quoted}\)?\s*$"}
    equal = {"properties": {"field": {"const": name}, "equal": {"const": value}}, "required": ["field", "equal"]}
    one_of = {"properties": {"field": {"const": name}, "oneOf": {"const": [value]}}, "required": ["field", "oneOf"]}
    return has("filter", {"anyOf": [expression, {"type": "object"} | equal, {"type": "object"} | one_of]})


def inline(rng: random.Random, trade: Trade, *, layered: bool) -> tuple[Chart, list[Row]]:
    """Ask for bars of values that have to be worked out first; on request with a line at their mean."""
    group, number = rng.choice(list(trade.groups)), rng.choice(list(trade.numbers))
    rows = draw_rows(rng, trade, 24 if layered else 16)
    sums: dict[str, float] = {}
    for row in rows:
        sums[str(row[group])] = sums.get(str(row[group]), 0.0) + as_number(row[number])
    values = [{group: name, "total": round(total, 2)} for name, total in sorted(sums.items())]
    bar: Spec = {
        "mark": "bar",
        "encoding": {
            "x": {"field": group, "type": "nominal", "title": group.capitalize()},
            "y": {"field": "total", "type": "quantitative", "title": f"Total {number}"},
        },
    }
    checks: dict[str, tuple[Spec, float]] = {
        f"value {name}": (has("data.values", {"contains": near(group, name, total)}), 1) for name, total in sums.items()
    }
    drawn = {
        "bars": (marked("bar"), 1.0),
        "category": (channel("x", field=group, type=NOMINAL), 1.0),
        "amount": (channel("y", field="total", type="quantitative"), 1.0),
        "titles": ({"allOf": [titled("x", group.capitalize()), titled("y", f"Total {number}")]}, 1.0),
    }
    words = (
        f"a bar chart of the total {number} by {group}, {group} along the horizontal axis. Work out the totals of this "
        f"table yourself and put them into data.values, one object for each {group} with {group} and total (no "
        f"aggregate and no url in the specification). Title the axes {group.capitalize()} and Total {number}"
    )
    if not layered:
        return Chart(words=words, spec={"data": {"values": values}} | bar, checks=checks | drawn), rows
    rule: Spec = {
        "mark": {"type": "rule", "color": "red", "strokeDash": [4, 4]},
        "encoding": {"y": {"aggregate": "mean", "field": "total", "type": "quantitative"}},
    }
    layers = {name: (in_layer(schema), weight) for name, (schema, weight) in drawn.items()}
    at_mean = {"allOf": [rule_mark(), channel("y", field="total", aggregate=["mean", "average"])]}
    return Chart(
        words=f"{words}. Lay over the bars (by layer) a dashed red rule at the mean of the totals, by an aggregate",
        spec={"data": {"values": values}, "layer": [bar, rule]},
        checks=checks | layers | {"rule": (in_layer(at_mean), 2)},
    ), rows


def in_layer(schema: Spec) -> Spec:
    """Return the schema of a specification one of whose layers fits a schema."""
    return has("layer", {"type": "array", "contains": schema})


def rule_mark() -> Spec:
    """Return the schema of a dashed red rule."""
    dashes: Spec = {"type": "array", "minItems": 1}
    return has("mark", {
        "type": "object",
        "properties": {"type": {"const": "rule"}, "color": {"const": "red"}, "strokeDash": dashes},
        "required": ["type", "color", "strokeDash"],
    })  # fmt: skip


def near(group: str, name: str, total: float) -> Spec:
    """Return the schema of an object with a group's name and its total, but for rounding."""
    bounds = {"type": "number", "minimum": total - 0.0101, "maximum": total + 0.0101}
    return {"type": "object", "properties": {group: {"const": name}, "total": bounds}, "required": [group, "total"]}


@domain(family="data", levels=4, max_tokens=900)
def data_chart_spec(rng: random.Random, level: int) -> Item:
    """Write a chart as a specification of Vega-Lite."""
    trade = rng.choice(TRADES)
    if level < 2:
        chart, rows = (bars, lines)[level](rng, trade), draw_rows(rng, trade, 4)
        data: Spec = {"url": trade.file}
        about = f"{trade.file} has {trade.about}. It begins\n{as_csv(rows)}"
        source = f"Take the data from that file, by data.url {trade.file!r}. "
    else:
        chart, rows = inline(rng, trade, layered=level == 3)
        data, about, source = chart.spec["data"], f"These are {trade.about}:\n{as_csv(rows)}", ""
    spec = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "data": data} | chart.spec
    picture = {"layer": {"type": "array", "minItems": 1}} if level == 3 else {"encoding": {"required": ["x", "y"]}}
    fits: Spec = {"type": "object", "properties": {"data": shape_of(data)} | picture, "required": ["data", *picture]}
    parts = [
        Part(kind="schema", name="specification", extract="json", role="gate", options={"schema": fits}),
        *(
            Part(kind="schema", name=name, extract="json", weight=weight, options={"schema": schema})
            for name, (schema, weight) in chart.checks.items()
        ),
    ]
    unworked = data if level < 2 else {"values": [one | {"total": -1} for one in data["values"]]}
    bare: Spec = {"data": unworked} | {name: {} if name == "encoding" else [{}] for name in picture}
    off = json.loads(json.dumps(spec).replace('"nominal"', '"quantitative"').replace('"quantitative"', '"temporal"'))
    return Item(
        prompt=f"{about}\n{rng.choice(OPENERS)} {chart.words}. {source}"
        "Answer with the specification in Vega-Lite (version 5) as one JSON object, with explicit types of all fields.",
        gold=(f"```json\n{json.dumps(spec, indent=1)}\n```",),
        verifier=verdict(*parts),
        partials=((json.dumps(off | {"mark": "arc"}),),),
        wrongs=(
            (json.dumps(bare),),
            (json.dumps({name: value for name, value in spec.items() if name != "data"}),),
            (json.dumps({"data": {"values": [{"a": 1}]}, "mark": "point", "encoding": {"x": {}, "y": {}}}),),
        ),
        difficulty=len(chart.checks) + 3 * level,
    )


def shape_of(data: Spec) -> Spec:
    """Return the schema of where the data come from."""
    if "url" in data:
        return has("url", {"const": data["url"]})
    num = len(data["values"])
    return has("values", {"type": "array", "minItems": num, "maxItems": num})
