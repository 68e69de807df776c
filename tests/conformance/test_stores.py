"""Every store of windlass passes the suite that a stranger's store would have to pass."""

from __future__ import annotations

import pytest

from tests.conformance.harnesses import MemoryHarness, SqliteHarness
from windlass.testing import conformance


@pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.name_of)
async def test_the_memory_store_keeps_to(check: conformance.Check) -> None:
    applies = await check.run(MemoryHarness())

    assert applies is not check.crashes


@pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.name_of)
async def test_the_sqlite_store_keeps_to(check: conformance.Check) -> None:
    assert await check.run(SqliteHarness())
