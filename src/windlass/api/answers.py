"""Waits and the answers to them, from any process on the same store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from windlass.errors import ArgsInvalid, InvalidInput
from windlass.guards import check_id, check_limit, check_text
from windlass.guards.limits import check_page
from windlass.guards.text import check_words
from windlass.journal.redaction import cleaned
from windlass.kernel import Json, canonical, freeze
from windlass.ports import Wait, WaitAnswer, WaitReceipt
from windlass.ports.waits import AnswerStatus

if TYPE_CHECKING:
    from windlass.engines.admission import Admission

_WAITS_AT_ONCE = 1_000
_RETRYABLE = ("poison", "mismatch", "provider", "deps", "budget")


class Answering:
    """What a runtime does about waits: list them, check and store answers, wake the turn that waits if it runs here."""

    _admission: Admission

    async def waits(
        self,
        kind: str | None = None,
        *,
        session_id: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> tuple[Wait, ...]:
        """Return the open waits, oldest first.

        Args:
            kind: Only waits of this kind, such as `approval`.
            session_id: Only waits of this session.
            after: The key of the last wait of the page before.
            limit: How many to return at most; None for all.
        """
        store, found = self._admission.services.store, list[Wait]()
        while True:
            most = _WAITS_AT_ONCE if limit is None else check_page(limit)
            page = await store.list_waits(kind=kind, session_id=session_id, after=after, limit=most)
            found += [view.wait for view in page]
            if limit is not None or len(page) < most:
                return tuple(found)
            after = found[-1].key

    async def approvals(self) -> tuple[Wait, ...]:
        """Return the open approvals, oldest first."""
        return await self.waits("approval")

    async def approve(
        self,
        key: str,
        *,
        edit: Mapping[str, Any] | None = None,
        remember: Literal["once", "session"] = "once",
        by: str | None = None,
    ) -> WaitReceipt:
        """Allow a tool call that waits for approval.

        Args:
            key: The wait's key.
            edit: Other arguments to run the call with, all of them; they have to fit the tool.
            remember: `session` allows the same call for the rest of the session.
            by: Who allows it; recorded with the decision.

        Raises:
            InvalidInput: the edit does not fit the tool, or the key is not one of the store's. The question stays open.
        """
        if remember not in ("once", "session"):
            raise InvalidInput("remember: wanted once or session", field="remember")
        wait = await self._open_wait(key, "approval")
        value: dict[str, Json] = {"remember": remember}
        if edit is not None:
            await self._check_edit(edit, wait)
            value["edit"] = dict(edit)
        return await self._answer(key, value, by)

    async def deny(self, key: str, *, reason: str = "", by: str | None = None) -> WaitReceipt:
        """Refuse a tool call that waits for approval; the model reads the reason.

        Args:
            key: The wait's key, as `rt.waits()` lists it.
            reason: Why not, in words that the model reads.
            by: Who refuses it; recorded with the decision.
        """
        check_words(reason, field="reason")
        await self._open_wait(key, "approval")
        return await self._answer(key, {"reason": reason}, by, "rejected")

    async def resolve(self, key: str, value: Any = None, *, by: str | None = None) -> WaitReceipt:  # noqa: ANN401 - JSON
        """Deliver the value that a wait is for; it is JSON.

        Args:
            key: The wait's key, as `ctx.defer`, `ctx.ask` or `rt.waits()` gave it.
            value: What the tool would have returned: any JSON. The answer to a question fits the schema of the question.
            by: Who answers; recorded with the answer.

        Raises:
            InvalidInput: the value does not fit the question, or the wait is an approval. It stays open.
        """
        value = freeze(value, field="value")
        check_limit("tool_result_bytes", len(canonical.encode(value)), field="value")
        wait = await self._open_wait(key, None)
        if wait is not None and wait.kind == "question":
            from windlass.runtime.questions import check_answer  # noqa: PLC0415 - only for a question

            check_answer(value, wait)
        return await self._answer(key, value, by)

    async def reject(self, key: str, error: str, *, by: str | None = None) -> WaitReceipt:
        """Answer that the value will not come; the model reads the error.

        Args:
            key: The wait's key, as `ctx.defer`, `ctx.ask` or `rt.waits()` gave it.
            error: What went wrong, in words that the model reads.
            by: Who answers; recorded with the answer.
        """
        check_words(error, field="error")
        await self._open_wait(key, None)
        return await self._answer(key, error, by, "rejected")

    async def retry(self, session_id: str, turn_id: str) -> bool:
        """Try a turn again that is parked as poison, on a mismatch, for a provider, for deps or for a budget.

        So is a turn that is parked and waits for nothing, because its wait was lost: it asks again. Returns whether there
        was anything to try.

        Args:
            session_id: The session that the turn belongs to.
            turn_id: The turn to try again.
        """
        check_id(session_id, field="session_id")
        check_id(turn_id, field="turn_id")
        store = self._admission.services.store
        waits = await store.list_waits(session_id=session_id, turn_id=turn_id)
        found = [view.wait.key for view in waits if view.wait.kind in _RETRYABLE]
        for key in found:
            await self._answer(key, "retry", None)
        if waits:
            return bool(found)
        return await self._admission.worker.reopen(session_id, turn_id)

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
            verb = "windlass approve or deny, or runtime.approve() or deny()"
            if wait.kind != "approval":
                verb = "windlass answer, or runtime.resolve() or reject()"
            raise InvalidInput(f"key: it is a wait of kind {wait.kind}; use {verb}", field="key")
        return wait

    async def _check_edit(self, edit: Mapping[str, Any], wait: Wait | None) -> None:
        """Refuse arguments that do not fit the tool: as it is here, else as the turn recorded it."""
        from windlass.runtime.approving import check_edit, edit_refused  # noqa: PLC0415 - imports asyncio
        from windlass.runtime.turn_start import offered_spec  # noqa: PLC0415 - only for an edit
        from windlass.tools.arguments import check_against, frozen_args  # noqa: PLC0415

        if not isinstance(edit, Mapping) or not edit:
            raise InvalidInput("edit: wanted the call's arguments", field="edit")
        if wait is None:
            return  # the store says what became of it
        turn = await self._admission.services.store.load_turn(wait.session_id, wait.turn_id)
        if turn is None:
            return
        name, program = wait.detail["tool"], self._admission.worker.programs.get(turn.agent)
        tool = None if program is None else program.toolbox.get(name)
        if tool is not None:
            check_edit(edit, tool)
            return
        spec = offered_spec(turn.journal(), name)
        if spec is not None:
            try:
                check_against(frozen_args(edit), spec.parameters, "args")
            except ArgsInvalid as error:
                raise edit_refused(error) from None

    async def _answer(
        self, key: str, value: Json, by: str | None, status: AnswerStatus = "answered"
    ) -> WaitReceipt:
        if by is not None:
            check_words(by, field="by")
        services = self._admission.services
        answer = WaitAnswer(status=status, value=value, by=by, now_ms=services.clock.now_ms())
        receipt = await services.store.resolve_wait(key, cleaned(answer))
        self._admission.worker.answered()
        return receipt
