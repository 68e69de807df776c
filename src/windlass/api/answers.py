"""Answers to waits, from any process on the same store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from windlass.errors import ArgsInvalid, InvalidInput
from windlass.guards.limits import check_limit
from windlass.guards.text import check_text
from windlass.journal.redaction import cleaned
from windlass.kernel import canonical
from windlass.kernel.value import Json, freeze
from windlass.ports import Wait, WaitAnswer, WaitReceipt
from windlass.ports.waits import AnswerStatus

if TYPE_CHECKING:
    from windlass.engines.admission import Admission

_RETRYABLE = ("poison", "mismatch", "provider", "deps", "budget")


class Answers:
    """Checks and stores answers, and wakes the turn that waits if it is driven here."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    async def approve(
        self,
        key: str,
        *,
        edit: Mapping[str, Any] | None,
        remember: Literal["once", "session"],
        by: str | None,
    ) -> WaitReceipt:
        """Allow a call."""
        if remember not in ("once", "session"):
            raise InvalidInput("remember: wanted once or session", field="remember")
        wait = await self._open_wait(key, "approval")
        if edit is not None:
            self._check_edit(edit, wait)
        value: dict[str, Json] = {"remember": remember}
        if edit is not None:
            value["edit"] = dict(edit)
        return await self._answer(key, self._answered(value, by))

    async def deny(self, key: str, *, reason: str, by: str | None) -> WaitReceipt:
        """Refuse a call."""
        _check_words(reason, "reason")
        await self._open_wait(key, "approval")
        answer = self._answered({"reason": reason}, by, "rejected")
        return await self._answer(key, answer)

    async def resolve(self, key: str, value: Json, *, by: str | None) -> WaitReceipt:
        """Deliver the value that a wait is for."""
        value = freeze(value, field="value")
        check_limit("tool_result_bytes", len(canonical.encode(value)), field="value")
        await self._open_wait(key, None)
        return await self._answer(key, self._answered(value, by))

    async def reject(self, key: str, error: str, *, by: str | None) -> WaitReceipt:
        """Answer that the value will not come."""
        _check_words(error, "error")
        await self._open_wait(key, None)
        answer = self._answered(error, by, "rejected")
        return await self._answer(key, answer)

    async def retry(self, session_id: str, turn_id: str) -> bool:
        """Answer the waits of a turn that a retry answers; return whether there were any."""
        waits = await self._admission.services.store.list_waits(
            session_id=session_id, turn_id=turn_id
        )
        found = [view.wait.key for view in waits if view.wait.kind in _RETRYABLE]
        for key in found:
            await self._answer(key, WaitAnswer(value="retry", now_ms=self._now()))
        return bool(found)

    def _answered(
        self, value: Json, by: str | None, status: AnswerStatus = "answered"
    ) -> WaitAnswer:
        if by is not None:
            _check_words(by, "by")
        return cleaned(WaitAnswer(status=status, value=value, by=by, now_ms=self._now()))

    def _now(self) -> int:
        return self._admission.services.clock.now_ms()

    async def _open_wait(self, key: str, kind: str | None) -> Wait | None:
        """Return the open wait of a key; None if there is none, or not any more.

        Raises:
            InvalidInput: it is a wait of another kind.
        """
        check_text(key, field="key")
        found = await self._admission.services.store.list_waits(key=key)
        if not found:
            return None
        wait = found[0].wait
        if (wait.kind == "approval") != (kind == "approval"):
            verb = "approve or deny" if wait.kind == "approval" else "resolve or reject"
            raise InvalidInput(f"key: it is a wait of kind {wait.kind}; use {verb}", field="key")
        return wait

    def _check_edit(self, edit: Mapping[str, Any], wait: Wait | None) -> None:
        """Refuse arguments that the tool would not take, if this process has the tool."""
        if not isinstance(edit, Mapping) or not edit:
            raise InvalidInput("edit: wanted the call's arguments", field="edit")
        if wait is None:
            return
        name = wait.detail["tool"]
        for program in self._admission.engine.programs.values():
            tool = program.toolbox.get(name)
            if tool is not None:
                try:
                    tool.check(edit)
                except ArgsInvalid as error:
                    field = (error.field or "args").replace("args", "edit", 1)
                    raise InvalidInput(f"edit: {error}", field=field) from None

    async def _answer(self, key: str, answer: WaitAnswer) -> WaitReceipt:
        receipt = await self._admission.services.store.resolve_wait(key, answer)
        self._admission.engine.answered()
        return receipt


def _check_words(words: object, field: str) -> None:
    check_text(words, field=field)
    check_limit("metadata_bytes", len(str(words).encode()), field=field)
