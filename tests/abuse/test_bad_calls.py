"""Bad input through the public API, case by case: refused by place and nothing stored, or told to the model; the session goes on.

Each row has the number of its case: 1 to 16 are values, 17 to 24 ids and order, 25 to 32 settings, 33 to 41 tools.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.abuse.bad_calls_ids import IDS
from tests.abuse.bad_calls_scene import Scene, StoreKind
from tests.abuse.bad_calls_settings import SETTINGS
from tests.abuse.bad_calls_table import Row
from tests.abuse.bad_calls_tools import TOOLS
from tests.abuse.bad_calls_values import VALUES
from windlass.errors import WindlassError

ROWS: list[Row] = [*VALUES, *IDS, *SETTINGS, *TOOLS]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
async def test_a_bad_call_is_refused_or_told_and_the_session_goes_on(
    row: Row, store: StoreKind, tmp_path: Path
) -> None:
    async with Scene(tmp_path, store) as scene:
        if row.needs:
            await scene.park(row.needs)
        if row.error is None:
            await row.act(scene)
        else:
            before = await scene.kept()
            with pytest.raises(WindlassError) as caught:
                await row.act(scene)
            _check_refusal(caught.value, row)
            assert await scene.kept() == before
        await scene.works()


def _check_refusal(error: WindlassError, row: Row) -> None:
    assert type(error) is row.error, f"{type(error).__name__}: {error}"
    place = error.field or ""
    if row.field.endswith("*"):
        assert place.startswith(row.field[:-1])
    else:
        assert place == row.field
    # It says where, in words as well, and does not repeat what was handed in.
    assert place.split(".")[0].split("[")[0] in str(error)
    assert len(str(error)) < 1_000


def test_every_case_has_a_row() -> None:
    assert sorted({row.case for row in ROWS}) == list(range(1, 42))


def test_no_two_rows_are_called_the_same() -> None:
    names = [row.name for row in ROWS]
    assert sorted(set(names)) == sorted(names)
