"""`windlass deny`: say no to a call that waits."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from windlass.cli.answering import told_answer
from windlass.cli.opening import full_key, opened
from windlass.cli.options import ByOption, JsonOption, KeyWord, StoreOption
from windlass.cli.settings import read_settings
from windlass.ports import WaitReceipt


def deny(
    key: KeyWord,
    /,
    *,
    reason: Annotated[str, Parameter(help="why; the model reads it")] = "",
    by: ByOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Do not allow a call. The turn goes on, and the model is told."""
    return told_answer(asyncio.run(_answer(key, reason, by, store)), json=json)


async def _answer(key: str, reason: str, by: str | None, store: str | None) -> WaitReceipt:
    name = read_settings(by=by).by
    async with opened(store) as runtime:
        return await runtime.deny(await full_key(runtime, key), reason=reason, by=name)
