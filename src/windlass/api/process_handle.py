"""A handle on a process, wherever it runs: look at it, wait for it, signal it, cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from os import urandom
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args

from windlass.api.process_status import ProcessStatus, ending_of, status_of, turn_of
from windlass.api.process_step import as_plain
from windlass.api.trees import delete_tree
from windlass.api.watcher import AT_END, Watcher
from windlass.errors import (
    IdempotencyConflict,
    InvalidInput,
    ProcessCancelled,
    ProcessEnded,
    ProcessFailed,
    SessionDeleted,
    UnknownSession,
)
from windlass.folds import Place, read_cursor, write_cursor
from windlass.guards import check_id, check_text
from windlass.guards.limits import check_seconds
from windlass.journal.redaction import cleaned
from windlass.kernel import Event, FinishedValue, HandedOff, Json, Outcome, TurnEnded, canonical
from windlass.kernel.events import ProcessEvent
from windlass.kernel.value import Value, thaw
from windlass.ports import (
    CancelReceipt,
    DeleteReport,
    ErrandReceipt,
    MoveSession,
    NewItem,
    PostItem,
    SessionView,
    TurnView,
    WaitKind,
)
from windlass.ports.inbox import Wake
from windlass.ports.process import FIRST_TURN, TOLD, ProcessSpec
from windlass.ports.views import NO_PAGES
from windlass.runtime.children import next_turn_id
from windlass.runtime.turn_record import TurnRecord

if TYPE_CHECKING:
    from windlass.engines.admission import Admission

R_co = TypeVar("R_co", covariant=True)
_KINDS: tuple[WaitKind, ...] = get_args(WaitKind)


class SignalReceipt(Value, kw_only=True):
    """The signal is stored.

    Attributes:
        status: `accepted`: the signal is new. `known`: it came before, under the same key.
        item_id: Its id in the inbox of the process.
    """

    status: Literal["accepted", "known"]
    item_id: str


class ProcessHandle(Generic[R_co]):
    """A process, by its id, wherever it runs. `rt.processes.start` and `rt.processes.get` return one.

    Attributes:
        id: The id of the process.
        session_id: The session of the process.
    """

    def __init__(
        self,
        admission: Admission,
        process_id: str,
        session_id: str,
        read_result: Callable[[Json], R_co] | None = None,
    ) -> None:
        self._admission = admission
        self._read_result = read_result
        self.id = process_id
        self.session_id = session_id

    def __repr__(self) -> str:
        return f"<process handle {self.id}>"

    # ------------------------------------------------------------------ looking

    async def status(self) -> ProcessStatus:
        """Return the current state of the process.

        Raises:
            UnknownSession: there is no such process.
            SessionDeleted: it was deleted.
        """
        session = await self._session()
        turn = await self._turn(session, NO_PAGES)
        folded = await self._admission.worker.folded.of(self.session_id, turn.turn_id)
        record: dict[str, Json] = {}
        if turn.request is not None:
            record |= turn.request.overrides.get("record") or {}
        if folded is not None:
            told = [one for one in folded.fold.facts if isinstance(one, ProcessEvent)]
            record |= {one.name: one.value for one in told}
        return status_of(session, turn, record)

    def events(self, cursor: str | None = None) -> AsyncIterator[Event]:
        """Yield the facts of the process until it ends, through its sleeps and every `continue_as`.

        Args:
            cursor: The `cursor` of the last event that you saw: the facts after it follow, in any process. Without it, all.

        Raises:
            InvalidInput: the cursor belongs to another session, or is not a cursor.
        """
        first = write_cursor(self.session_id, "", Place(FIRST_TURN, ""))
        begin = read_cursor(first if cursor is None else cursor, self.session_id)
        return self._events(begin)

    async def _events(self, begin: Any) -> AsyncIterator[Event]:  # noqa: ANN401 - a cursor
        session = await self._session()
        turn = await self._turn(session, NO_PAGES)
        is_told = begin.place == Place(turn.turn_id, AT_END)
        if is_told and status_of(session, turn).is_over:
            return
        watcher = Watcher(self._admission, self.session_id)
        try:
            await watcher.begin(begin)
            while (event := await watcher.next()) is not None:
                if not event.preview:
                    yield event
                if isinstance(event, TurnEnded) and not isinstance(event.outcome, HandedOff):
                    return
        finally:
            watcher.close()

    async def result(self, timeout: float | None = None) -> R_co:  # noqa: ASYNC109 - the public name
        """Wait until the process ends, through its sleeps and every `continue_as`, and return its value.

        Args:
            timeout: Seconds to wait; None waits for as long as it takes.

        Raises:
            ProcessFailed: it ended without a value; the message says why.
            ProcessCancelled: it was cancelled.
            TimeoutError: it took longer. The process continues.
            UnknownSession: there is no such process.
            SessionDeleted: it was deleted.
            EngineError: the runtime was closed meanwhile. The process continues when a worker runs.
        """
        check_seconds(timeout, field="timeout")
        async with asyncio.timeout(timeout):
            outcome = await self._outcome()
        if isinstance(outcome, FinishedValue):
            value = outcome.value
            return thaw(value) if self._read_result is None else self._read_result(value)
        state, said = ending_of(outcome)
        error = ProcessCancelled if state == "cancelled" else ProcessFailed
        raise error(
            f"process {self.id}: {state}: {said}" if said else f"process {self.id}: {state}"
        )

    async def _outcome(self) -> Outcome:
        turn_id = (await self._turn(await self._session(), NO_PAGES)).turn_id
        while True:
            found = await self._admission.outcome(self.session_id, turn_id, through=_KINDS)
            assert isinstance(found, TurnRecord)  # noqa: S101 - every park was waited through
            if not isinstance(found.outcome, HandedOff):
                return found.outcome
            turn_id = next_turn_id(turn_id)

    # ------------------------------------------------------------------ acting on it

    async def signal(
        self,
        name: str,
        payload: Any = None,  # noqa: ANN401 - JSON
        *,
        key: str | None = None,
        by: str | None = None,
    ) -> SignalReceipt:
        """Send the process a signal. windlass keeps it until the process asks for it.

        A process that ends without asking for it never sees it.

        Args:
            name: The name of the signal.
            payload: Its payload: any JSON, or an object of the declared type.
            key: With a key the signal arrives once, however often you send it.
            by: Who sends it.

        Raises:
            InvalidInput: the process takes no signal of this name, or the payload does not fit.
            IdempotencyConflict: the key is known with another payload.
            ProcessEnded: the process has ended.
            UnknownSession: there is no such process.
            SessionDeleted: it was deleted.
        """
        check_id(name, field="name")
        session = await self._session()
        spec = self._spec(session)
        value = as_plain(payload, "payload") if spec is None else spec.check_signal(name, payload)
        return await self._send(session, name, value, key=key, by=by)

    async def _send(
        self, session: SessionView, name: str, value: Json, *, key: str | None, by: str | None
    ) -> SignalReceipt:
        if by is not None:
            check_text(by, field="by")
        item_id = f"n_{urandom(12).hex()}"
        if key is not None:
            item_id = f"n_{canonical.digest([name, check_id(key, field='key')])[:40]}"
        if session.active is None and not session.queued:
            await self._refuse_unless_known(session, item_id)
            return SignalReceipt(status="known", item_id=item_id)
        content = cleaned({"name": name, "value": value, "by": by}, dict[str, Any])
        item = NewItem(item_id=item_id, kind="signal", when="asked", content=content)
        now_ms = self._admission.services.clock.now_ms()
        receipt = await self._run(PostItem(session_id=self.session_id, item=item, now_ms=now_ms))
        return SignalReceipt(
            status="known" if receipt.status == "known" else "accepted", item_id=item_id
        )

    async def _refuse_unless_known(self, session: SessionView, item_id: str) -> None:
        """Refuse a signal to a process that has ended, unless it arrived before."""
        receipt = await self._admission.services.store.withdraw(self.session_id, item_id)
        if receipt.status == "unknown":
            state, _ = ending_of((await self._turn(session, NO_PAGES)).outcome)
            raise ProcessEnded(f"process {self.id}: has ended ({state})", field="id")

    async def cancel(self, reason: str = "") -> CancelReceipt:
        """Ask the process to end, wherever it runs. Its function gets `CancelledError` and has 2 s to clean up.

        Args:
            reason: Why; it is part of the outcome and of the message of `ProcessCancelled`.
        """
        while True:
            session = await self._session()
            turn_id = (await self._turn(session, NO_PAGES)).turn_id
            receipt = await self._admission.cancel(self.session_id, turn_id, reason)
            if receipt.status != "finished":
                return receipt
            ended = await self._admission.services.store.load_turn(
                self.session_id, turn_id, since=NO_PAGES
            )
            if ended is None or not isinstance(ended.outcome, HandedOff):
                return receipt

    async def transfer(self, session: str, *, tell: str | None = None) -> None:
        """Move the process to another session: it is listed there, and `ctx.wake(None, ...)` wakes that session.

        Args:
            session: The session, which must exist.
            tell: A text for the old session, sent as a wake; without it, the old session is not told.

        Raises:
            UnknownSession: the process or the session does not exist.
            SessionDeleted: the process or the session was deleted.
        """
        check_id(session, field="session")
        before = (await self._session()).started_by
        if before == session:
            return
        services = self._admission.services
        now_ms = services.clock.now_ms()
        errands: list[MoveSession | PostItem] = [
            MoveSession(session_id=self.session_id, to=session)
        ]
        if tell is not None and before is not None:
            check_text(tell, field="tell")
            content = Wake("transferred", tell, self.id, 0).as_content()
            item = NewItem(item_id=f"n_{urandom(12).hex()}", kind="wake", content=content)
            errands.append(PostItem(session_id=before, item=item, now_ms=now_ms))
        receipts = await services.store.run_errands(errands, now_ms=now_ms)
        self._check(receipts[0])
        for receipt in receipts[1:]:
            self._admission.worker.wake(receipt.session_id)

    async def delete(self) -> DeleteReport:
        """Cancel the process if it has not ended, then remove it and everything that it began. Its id cannot be used again.

        Only a worker that has its function can end a process; this call waits until one does.
        """
        await self._session()
        return await delete_tree(self._admission, self.session_id, "the process is deleted")

    # ------------------------------------------------------------------ a process that runs elsewhere

    async def emit(self, name: str, value: Any = None, *, key: str | None = None) -> SignalReceipt:  # noqa: ANN401 - JSON
        """Report an event of an `external` process.

        Args:
            name: The name of the event.
            value: Its value, any JSON.
            key: With a key the event counts once, however often you report it.
        """
        check_id(name, field="name")
        return await self._tell({"emit": name, "value": as_plain(value, "value")}, key)

    async def finish(self, value: Any = None) -> SignalReceipt:  # noqa: ANN401 - JSON
        """Report that an `external` process has ended with a value.

        Args:
            value: The value of the process: any JSON.
        """
        return await self._tell({"finish": as_plain(value, "value")}, None)

    async def fail(self, message: str) -> SignalReceipt:
        """Report that an `external` process has failed.

        Args:
            message: Why it failed, for people.
        """
        return await self._tell({"fail": check_text(message, field="message")}, None)

    async def _tell(self, said: dict[str, Any], key: str | None) -> SignalReceipt:
        session = await self._session()
        spec = self._spec(session)
        if spec is not None and not spec.is_external:
            wanted = "one that is declared with recovery='external'"
            raise InvalidInput.at("process", f"{spec.name}, which runs here", wanted)
        return await self._send(session, TOLD, said, key=key, by=None)

    # ------------------------------------------------------------------ rows

    async def _session(self) -> SessionView:
        store = self._admission.services.store
        try:
            return await store.load_session(self.session_id, history=False)
        except SessionDeleted:
            raise SessionDeleted(f"process {self.id}: was deleted", field="id") from None
        except UnknownSession:
            raise UnknownSession(f"process {self.id}: is not known", field="id") from None

    async def _turn(self, session: SessionView, since: int) -> TurnView:
        """Return the current turn of the process, or its last."""
        return await turn_of(self._admission, session, since)

    def _spec(self, session: SessionView) -> ProcessSpec | None:
        program = self._admission.worker.programs.get(session.agent)
        return None if program is None or program.code is None else program.code.spec

    async def _run(self, errand: PostItem) -> ErrandReceipt:
        services = self._admission.services
        (receipt,) = await services.store.run_errands([errand], now_ms=errand.now_ms)
        self._check(receipt)
        self._admission.worker.answered()
        return receipt

    def _check(self, receipt: ErrandReceipt) -> None:
        if receipt.status == "dropped":
            raise refusal(receipt)


def refusal(receipt: ErrandReceipt) -> Exception:
    """Return the error for a dropped errand."""
    kinds = {one.code: one for one in (IdempotencyConflict, SessionDeleted, UnknownSession)}
    return kinds.get(receipt.code, InvalidInput)(receipt.reason)
