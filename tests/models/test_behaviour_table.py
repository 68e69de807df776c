"""Every cell of the table of behaviours and providers, and the page that shows it."""

from __future__ import annotations

import pytest

from tests.models.behaviour_table import CHECKS, PAGE_PATH, evidence, has, page
from tests.models.hosts import HOSTS
from windlass.models.names import PROVIDERS

CELLS = [
    (behaviour, host.name)
    for behaviour in CHECKS
    for host in HOSTS.values()
    if has(behaviour, host)
]


@pytest.mark.parametrize(("behaviour", "name"), CELLS)
async def test_a_provider_does_what_its_cell_says(behaviour: str, name: str) -> None:
    await CHECKS[behaviour](HOSTS[name])


def test_every_provider_has_a_row() -> None:
    assert set(PROVIDERS) - set(HOSTS) == {"local"}
    assert set(HOSTS) - set(PROVIDERS) == {"generic"}


def test_every_cell_says_what_it_rests_on() -> None:
    assert {evidence(behaviour, HOSTS[name]) for behaviour, name in CELLS} == {
        "recorded",
        "documented",
    }


def test_the_page_shows_the_table_as_it_is() -> None:
    assert PAGE_PATH.read_text(encoding="utf-8") == page(), "python -m tests.models.behaviour_table"
