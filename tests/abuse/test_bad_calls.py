"""Bad input through the public API, case by case: refused by place and nothing stored, or told to the model; the session goes on.

Each row has the number of its case: 1 to 16 are values, 17 to 24 ids and order, 25 to 32 settings, 33 to 41 tools.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.abuse.bad_calls_callbacks import CALLBACKS
from tests.abuse.bad_calls_declared import DECLARED
from tests.abuse.bad_calls_ids import IDS
from tests.abuse.bad_calls_order import ORDER
from tests.abuse.bad_calls_results import RESULTS
from tests.abuse.bad_calls_scene import Scene
from tests.abuse.bad_calls_settings import SETTINGS
from tests.abuse.bad_calls_sizes import SIZES
from tests.abuse.bad_calls_table import Row
from tests.abuse.bad_calls_tools import TOOLS
from tests.abuse.bad_calls_values import VALUES
from windlass.errors import WindlassError

ROWS: list[Row] = [
    *VALUES,
    *SIZES,
    *IDS,
    *ORDER,
    *SETTINGS,
    *DECLARED,
    *TOOLS,
    *CALLBACKS,
    *RESULTS,
]
BUILT = [row for row in ROWS if row.is_built]
REFUSED = [row for row in ROWS if row.error is not None and not row.is_built]
# On a file, the refusals of a case share one: each leaves it as it was.
REFUSED_CASES = sorted({row.case for row in REFUSED})
SEEN = [row for row in ROWS if row.error is None]


def named(rows: list[Row]) -> list[str]:
    return [row.name for row in rows]


@pytest.mark.parametrize("row", BUILT, ids=named(BUILT))
async def test_what_cannot_be_used_is_refused_when_it_is_built(row: Row, tmp_path: Path) -> None:
    with pytest.raises(WindlassError) as caught:
        await row.act(Scene(tmp_path, "memory"))
    check_refusal(caught.value, row)


@pytest.mark.parametrize("row", REFUSED, ids=named(REFUSED))
async def test_a_bad_call_is_refused_nothing_is_stored_and_the_session_goes_on(
    row: Row, tmp_path: Path
) -> None:
    async with Scene(tmp_path, "memory") as scene:
        await be_refused(scene, row)
        await scene.works()


@pytest.mark.parametrize("case", REFUSED_CASES)
async def test_on_a_file_the_same_calls_are_refused_in_the_same_way(
    case: int, tmp_path: Path
) -> None:
    async with Scene(tmp_path, "sqlite") as scene:
        for row in REFUSED:
            if row.case == case:
                await be_refused(scene, row)
        await scene.works()


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("row", SEEN, ids=named(SEEN))
async def test_what_is_taken_or_told_is_as_it_should_be_and_the_session_goes_on(
    row: Row, store: str, tmp_path: Path
) -> None:
    async with Scene(tmp_path, "memory" if store == "memory" else "sqlite") as scene:
        if row.needs:
            await scene.park(row.needs)
        await row.act(scene)
        await scene.works()


async def be_refused(scene: Scene, row: Row) -> None:
    if row.needs:
        await scene.park(row.needs)
    before = await scene.kept()
    with pytest.raises(WindlassError) as caught:
        await row.act(scene)
    check_refusal(caught.value, row)
    assert await scene.kept() == before, row.name


def check_refusal(error: WindlassError, row: Row) -> None:
    told = f"{row.name}: {type(error).__name__}, field {error.field}: {error}"
    assert type(error) is row.error, told
    place = error.field or ""
    if row.field.endswith("*"):
        assert place.startswith(row.field[:-1]), told
    else:
        assert place == row.field, told
    # It says where, in words as well, and does not repeat what was handed in.
    first = place.split(".")[0].split("[")[0].removesuffix("_id")
    assert first in str(error), told
    assert len(str(error)) < 1_000, told


def test_every_case_has_a_row() -> None:
    assert sorted({row.case for row in ROWS}) == list(range(1, 42))


def test_no_two_rows_are_called_the_same() -> None:
    assert sorted(set(named(ROWS))) == sorted(named(ROWS))
