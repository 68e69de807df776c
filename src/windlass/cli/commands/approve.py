"""`windlass approve`: say yes to a call that waits."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from windlass.cli.answering import told_answer
from windlass.cli.opening import full_key, opened
from windlass.cli.options import ByOption, JsonOption, KeyWord, StoreOption
from windlass.cli.settings import read_settings
from windlass.errors import InvalidInput
from windlass.kernel import canonical
from windlass.ports import WaitReceipt


def approve(
    key: KeyWord,
    /,
    *,
    edit: Annotated[
        str | None, Parameter(help="other arguments for the call, all of them, as JSON")
    ] = None,
    remember: Annotated[
        Literal["once", "session"],
        Parameter(help="for this call, or for the session", show_default=True),
    ] = "once",
    by: ByOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Allow a call. A worker that runs goes on with the turn at once, or the next one that starts."""
    args = None if edit is None else read_edit(edit)
    return told_answer(asyncio.run(_answer(key, args, remember, by, store)), json=json)


async def _answer(
    key: str,
    edit: dict[str, Any] | None,
    remember: Literal["once", "session"],
    by: str | None,
    store: str | None,
) -> WaitReceipt:
    name = read_settings(by=by).by
    async with opened(store) as runtime:
        whole = await full_key(runtime, key)
        return await runtime.approve(whole, edit=edit, remember=remember, by=name)


def read_edit(text: str) -> dict[str, Any]:
    """Return arguments that were written as JSON.

    Raises:
        InvalidInput: they are none.
    """
    try:
        found = canonical.parse(text)
    except ValueError as error:
        raise InvalidInput(f"edit: no JSON: {error}", field="edit") from None
    if not isinstance(found, dict):
        raise InvalidInput("edit: wanted a JSON object with the call's arguments", field="edit")
    return found
