"""Where a runtime keeps its rows, as its caller writes it: an address, a path, or what is nearly one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.stage import Desk
from tests.scenarios.workers import echo, worker
from windlass import Runtime
from windlass.errors import ConfigError


@pytest.mark.parametrize("store", [None, 5, "", "sqlite:///", "oracle://x", "a\0b.db"])
async def test_what_is_no_store_is_refused_where_it_is_written(store: Any) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises(
        ConfigError, match="wanted sqlite:///FILE or memory:, or the path of a file"
    ):
        Runtime(worker(Desk(), echo()), store=store)


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("sqlite://x.db", "found an address that is one slash short, wanted sqlite:///x.db"),
        ("sqlite:/x.db", "found an address that is two slashes short, wanted sqlite:///x.db"),
        ("sqlite:x.db", "found an address that is three slashes short, wanted sqlite:///x.db"),
        ("memory", "found 'memory', wanted memory: for a store in memory"),
        (":memory:", "found ':memory:', wanted memory: for a store in memory"),
        ("sqlite:///:memory:", "found 'sqlite:///:memory:', wanted memory: for a store in memory"),
    ],
)
async def test_an_address_that_is_nearly_right_is_told_the_right_one(store: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Runtime(worker(Desk(), echo()), store=store)

    assert str(refused.value) == f"store: {told}"


async def test_a_path_alone_is_the_file_of_a_sqlite_store(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "shop:1.db"
    path.parent.mkdir()
    addresses: dict[str, str | Path] = {"t1": path, "t2": str(path), "t3": f"sqlite:///{path}"}
    for turn_id, store in addresses.items():
        async with Runtime(worker(Desk(), echo()), store=store) as rt:
            await rt.session("s").run("Hello.", turn_id=turn_id)
            n_turns = len(await rt.session("s").history()) // 2

    assert n_turns == 3  # all in one file
    assert path.is_file()
