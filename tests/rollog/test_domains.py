"""The catalogue as users meet it: admission finds faults, packages bring domains, verbs say what there is."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from producers.domains import catalogue
from producers.domains.catalogue import add, all_domains
from producers.domains.interface import Domain, Item, is_held_out
from rollog import admission_test
from rollog.admission_test import admit
from rollog.domains import check_all, item_of, outline, select, select_one
from rollog.domains_cli import app
from rollog.resolve import expand_domains
from schemas.config import Settings, TaskSettings
from schemas.errors import ConfigError
from schemas.parts import Part
from schemas.taskfiles import TaskFile
from schemas.tasks import VerifierSpec
from streams.sandbox.fake import FakeSandbox

ROOT = Path(__file__).parents[2]
EXACT = VerifierSpec(kind="parts", parts=(Part(kind="exact", expected="4"),))


def sound(rng: random.Random, level: int) -> Item:
    a, b = rng.randint(1, 10 ** (level + 4)), rng.randint(1, 10 ** (level + 4))
    spec = VerifierSpec(kind="parts", parts=(Part(kind="exact", expected=str(a + b)),))
    return Item(prompt=f"{a} + {b} = ", gold=(str(a + b),), verifier=spec, difficulty=level)


def domain(draw: object = sound, **changes: object) -> Domain:
    fields = {"name": "sums", "family": "sums", "tier": "downstream", "draw": draw, "levels": 2}
    return Domain(**(fields | changes))  # type: ignore[arg-type]


def faults(draw: object, **changes: object) -> dict[str, str]:
    one = domain(draw, **changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admission_test, "digests", lambda _name: [])
        found = admit(one, None, elsewhere=[], num_items=1, num_drawn=200)
    return {fault.what: fault.got for fault in found.faults}


def test_a_sound_domain_has_no_faults() -> None:
    assert faults(sound) == {}


def test_each_fault_is_found_and_named() -> None:
    def changed(**fields: object) -> object:
        return lambda rng, level: msgspec.structs.replace(sound(rng, level), **fields)

    assert "0.000" in faults(changed(gold=("?",)))["gold"]
    assert "1.000" in faults(changed(wrongs=(("4",),), verifier=EXACT, gold=("4",)))["wrong 0"]
    assert "wanted 0.05" in faults(changed(partials=(("?",),)))["partial 0"]
    assert "different of 200" in faults(lambda rng, level: sound(random.Random(rng.randint(1, 20)), level))["variety"]
    assert "too few different ones" in faults(lambda _rng, level: sound(random.Random(3), level))["split"]
    assert "mean difficulty" in faults(changed(difficulty=1.0))["harder than the level below"]
    anything = VerifierSpec(kind="parts", parts=(Part(kind="regex", expected="^"),))
    assert {"empty", "the prompt said back"} <= faults(changed(verifier=anything)).keys()
    nonsense = VerifierSpec(kind="parts", parts=(Part(kind="smell", expected="4"),))
    assert "kind of part 'smell' is not known" in faults(changed(verifier=nonsense))["verifier"]


def test_another_process_that_draws_another_item_is_a_fault() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admission_test, "digests", lambda _name: ["here"] * 20)
        one = admit(domain(), None, elsewhere=["there"] * 20, num_items=1, num_drawn=200)
        free = admit(domain(is_reproducible=False), None, elsewhere=["there"] * 20, num_items=1, num_drawn=200)
    assert [fault.what for fault in one.faults] == ["same seed, same item"]
    assert free.is_admitted


PACKAGE = '''
import random
import re
from producers.domains import Item, domain
from schemas.taskfiles import TaskFile
from schemas.tasks import VerifierSpec
from streams.sandbox.fake import FakeSandbox

@domain(family="mine", levels=2, source="mine 1.0")
def mine_sum(rng: random.Random, level: int) -> Item:
    """Add two numbers."""
    a, b = rng.randint(1, 10 ** (level + 4)), rng.randint(1, 10 ** (level + 4))
    return Item(prompt=f"{a} + {b}", gold=(str(a + b),), difficulty=level,
                verifier=VerifierSpec(kind="exact_match", expected=str(a + b)))
'''


def run(*words: str, path: Path, home: Path) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"PYTHONPATH": f"{path}{os.pathsep}{ROOT}", "ROLLOG_HOME": str(home)}
    command = [sys.executable, "-m", "rollog.cli", "domains", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)


def test_an_installed_package_brings_its_domains(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PACKAGE)
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rollog.domains]\nmine = mine\n")
    listed = run("list", "--family", "mine", "--json", path=tmp_path, home=tmp_path)
    (row,) = json.loads(listed.stdout)["domains"]
    assert (row["name"], row["tier"], row["levels"], row["source"]) == ("mine_sum", "downstream", 2, "mine 1.0")
    assert (row["turns"], row["tools"], row["verifier"]) == (1, [], "exact_match")
    checked = run("check", "mine_sum", "--items", "1", "--json", path=tmp_path, home=tmp_path)
    assert json.loads(checked.stdout)["holds"], checked.stdout
    (tmp_path / "mine.py").write_text("import nothing_of_that_name")
    broken = run("list", path=tmp_path, home=tmp_path)
    assert broken.returncode == 3
    assert "entry point 'mine'" in broken.stderr


def test_a_domain_whose_name_is_taken_is_refused() -> None:
    taken = all_domains()["verbs"].name
    with pytest.raises(ConfigError, match="has the name of one of"):
        add(domain(name=taken))


def test_a_name_with_a_star_is_all_domains_of_such_names_and_they_share_its_weight() -> None:
    given = {"finance_*": 8.0, "finance_ratio": 3.0, "verbs": 1.0}
    expanded = expand_domains(Settings(tasks=TaskSettings(domains=given))).tasks.domains
    assert expanded["finance_ratio"] == 3.0
    assert expanded["verbs"] == 1.0
    others = {name: weight for name, weight in expanded.items() if name not in {"finance_ratio", "verbs"}}
    assert all(name.startswith("finance_") for name in others)
    assert sum(others.values()) == pytest.approx(8.0)
    with pytest.raises(ConfigError, match=r"riddle_\*"):
        expand_domains(Settings(tasks=TaskSettings(domains={"riddle_*": 1.0})))


def test_verbs_say_what_there_is() -> None:
    runner = CliRunner()
    listed = json.loads(runner.invoke(app, ["list", "--json"]).stdout)["domains"]
    assert {"name", "family", "tier", "turns", "tools", "verifier", "source"} <= listed[0].keys()
    shown = json.loads(runner.invoke(app, ["show", "finance_ratio", "--level", "1", "--json"]).stdout)
    assert shown["item"]["prompt"]
    tried = runner.invoke(app, ["try", "finance_ratio", "--gold", "--json"])
    assert json.loads(tried.stdout)["finding"]["score"]["value"] == 1.0
    with pytest.raises(ConfigError, match="no domain has family 'chess'"):
        select([], family="chess")
    with pytest.raises(ConfigError, match="'chess' is not known"):
        select(["chess"])


def test_a_file_is_tested_like_a_domain_though_another_process_knows_nothing_of_it(tmp_path: Path) -> None:
    rows = tmp_path / "own.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"{n} + 1 = ", "gold": str(n + 1)}) + "\n" for n in range(40)))
    found = select(["own"], files={"own": TaskFile(path=str(rows))})
    report = check_all(found, FakeSandbox(), num_items=1, show=lambda _done, _all: None)
    assert report.holds, report
    assert report.admitted == {"file": 1}


def test_a_file_of_one_row_is_listed_and_shown_whichever_split_the_row_is_of(tmp_path: Path) -> None:
    splits = set()
    for number in range(40):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps({"prompt": f"{number} = ", "gold": number}))
        found = select_one("one", 0, files={"one": TaskFile(path=str(tmp_path / f"{number}.jsonl"))})
        splits.add(is_held_out(item_of(found, random.Random(0), 0)))
        assert outline(found).verifier == "exact"
    assert splits == {False, True}


def test_one_item_is_of_one_domain_and_of_a_level_that_there_is() -> None:
    with pytest.raises(ConfigError, match=r"'finance_\*' is 8 domains, such as finance_cashflow_tieout; wanted one"):
        select_one("finance_*", 0, files={})
    assert select_one("finance_rati*", 3, files={}).name == "finance_ratio"
    for level in (-1, 4):
        with pytest.raises(ConfigError, match=f"--level {level}: finance_ratio has levels 0 to 3"):
            select_one("finance_ratio", level, files={})


def test_the_example_in_the_docs_is_a_domain_that_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_known", dict(catalogue.complete()))
    (source,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "domains.md").read_text(), re.DOTALL)
    namespace: dict[str, object] = {"__name__": "docs"}
    exec(source, namespace)
    assert faults(namespace["arithmetic_sum"], name="arithmetic_sum", levels=3) == {}
