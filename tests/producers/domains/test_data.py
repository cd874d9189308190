import contextlib
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from producers.domains.data.charts import channel, filtered, has, marked, sorted_by, titled
from producers.domains.data.describe import data_describe
from producers.domains.data.groupby import data_groupby
from producers.domains.data.outliers import data_outlier
from producers.domains.data.regression import data_regression
from producers.domains.data.series import drawdown, smoothed
from producers.domains.interface import Item
from schemas.tools import find_call, parse_call
from streams.verifiers.parts.schema import lack_of

Draw = Callable[[random.Random, int], Item]


def printed(program: str, files: dict[str, bytes], folder: Path) -> str:
    """Run a program of ours, which trusts nobody, here."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        exec(compile(program, "program", "exec"), {})
    return out.getvalue().strip()


def printed_by_gold(item: Item, folder: Path) -> str:
    found = find_call(item.gold[0])
    assert found is not None
    assert item.execution is not None
    return printed(parse_call(found).arguments["code"], item.execution.files, folder)


@pytest.mark.parametrize("level", range(4))
def test_statistics_are_those_of_the_standard_library(level: int, tmp_path: Path) -> None:
    for seed in range(12):
        item = data_describe(random.Random(seed), level)
        assert json.loads(printed_by_gold(item, tmp_path)) == pytest.approx(json.loads(item.gold[1]), rel=1e-4)


@pytest.mark.parametrize("level", range(4))
def test_outliers_are_those_that_a_program_finds(level: int, tmp_path: Path) -> None:
    for seed in range(8):
        item = data_outlier(random.Random(seed), level)
        assert f"<ids>{printed_by_gold(item, tmp_path)}</ids>" == item.gold[1]


@pytest.mark.parametrize("level", range(4))
def test_coefficients_are_those_of_exact_arithmetic(level: int, tmp_path: Path) -> None:
    for seed in range(6):
        item = data_regression(random.Random(seed), level)
        found = json.loads(printed_by_gold(item, tmp_path))
        values = json.loads(item.gold[1])
        if level == 3:
            pairs = [(values["elasticity_no"], found[1]), (values["elasticity_yes"], found[1] + found[3])]
        elif level == 2:
            pairs = list(zip(list(values.values())[:4], found, strict=True))
        else:
            pairs = [(values["intercept"], found[0]), (values["slope"], found[1])]
        assert [one for one, _ in pairs] == pytest.approx([other for _, other in pairs], rel=1e-4)


@pytest.mark.parametrize("level", range(4))
def test_groups_are_those_that_a_program_prints_and_the_example_is_of_the_file_that_is_shown(
    level: int, tmp_path: Path
) -> None:
    for seed in range(8):
        item = data_groupby(random.Random(seed), level)
        assert item.execution is not None
        program = item.gold[0].removeprefix("```python\n").removesuffix("```")
        shown, example = item.prompt.split("The file is as this one:\n")[1].split("\nFor it the program prints\n")
        name = next(iter(item.execution.cases[0].files))
        assert printed(program, {name: shown.encode()}, tmp_path) == example.split("\nIt will be run")[0]


def test_the_deepest_fall_goes_over_several_months() -> None:
    assert drawdown([10, 12, 9, 11, 6, 13, 12]) == pytest.approx(50)
    assert drawdown([1, 2, 3]) == 0


def test_smoothing_follows_a_line_exactly() -> None:
    assert smoothed([3.0 + 2 * month for month in range(8)], 0.3, 0.2) == pytest.approx(19)
    assert smoothed([10.0, 12.0, 11.0], 0.5, 0.5) == pytest.approx(13.75)


def test_a_chart_may_be_written_in_the_ways_that_vega_lite_has() -> None:
    bars = {"mark": {"type": "bar"}, "encoding": {"x": {"field": "a", "type": "nominal", "axis": {"title": "A"}}}}
    assert lack_of(bars, marked("bar")) is None
    assert lack_of({"mark": "bar"}, marked("bar")) is None
    assert lack_of({"mark": "line"}, marked("bar")) is not None
    assert lack_of(bars, channel("x", field="a", type=["nominal", "ordinal"])) is None
    assert lack_of(bars, channel("x", field="b")) is not None
    assert lack_of(bars, titled("x", "A")) is None
    for sort in ("-y", {"field": "n", "op": "sum", "order": "descending"}, {"encoding": "y", "order": "descending"}):
        assert lack_of(sort, sorted_by("y", "-y", "sum", "n")) is None
    for sort in ("y", None, {"field": "n", "op": "sum"}, {"field": "n", "op": "mean", "order": "descending"}):
        assert lack_of(sort, sorted_by("y", "-y", "sum", "n")) is not None


@pytest.mark.parametrize(
    ("written", "fits"),
    [
        ("datum.region === 'east'", True),
        ('datum["region"] == "east"', True),
        ({"field": "region", "equal": "east"}, True),
        ({"field": "region", "oneOf": ["east"]}, True),
        ("datum.region !== 'east'", False),
        ("datum.region === 'east' || true", False),
        ({"field": "region", "oneOf": ["east", "west"]}, False),
    ],
)
def test_a_filter_may_be_an_expression_or_an_object(written: object, fits: bool) -> None:
    spec = {"transform": [{"calculate": "1", "as": "one"}, {"filter": written}]}
    schema = has("transform", {"type": "array", "contains": filtered("region", "east")})
    assert (lack_of(spec, schema) is None) == fits
