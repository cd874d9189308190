"""Every domain of the catalogue is admitted: `rollog domains check --all`, with fewer items of each."""

from collections.abc import Iterator

import pytest

from producers.domains.catalogue import all_domains
from rollog.admission_test import GENERATED, admit, drawn_elsewhere
from streams.sandbox.bubblewrap import BubblewrapSandbox
from tests.streams.sandbox.shared_home import sandbox_home

NAMES = [name for name, domain in all_domains().items() if domain.tier in GENERATED]
NUM_DRAWN = 120


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BubblewrapSandbox]:
    with BubblewrapSandbox(num_slots=1, home=sandbox_home(tmp_path_factory)) as opened:
        yield opened


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, list[str]]:
    return drawn_elsewhere(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_domain_is_admitted(name: str, sandbox: BubblewrapSandbox, elsewhere: dict[str, list[str]]) -> None:
    found = admit(all_domains()[name], sandbox, elsewhere=elsewhere[name], num_items=1, num_drawn=NUM_DRAWN)
    assert found.faults == ()
    assert found.num_played >= 6 * all_domains()[name].levels


def test_there_are_as_many_downstream_domains_of_each_family_as_the_catalogue_promises() -> None:
    families = [domain.family for domain in all_domains().values() if domain.tier == "downstream"]
    assert {family: families.count(family) for family in families} == {
        "3d": 7, "agent": 7, "code": 8, "data": 8, "documents": 7, "finance": 8, "terminal": 7,
    }  # fmt: skip
