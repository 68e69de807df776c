"""The processes of a store: start them, find them, list them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import urandom
from typing import TYPE_CHECKING, Any, TypeVar, get_args, overload

import msgspec

from windlass.api.process import Process
from windlass.api.process_handle import ProcessHandle, refusal
from windlass.api.process_status import (
    ProcessState,
    ProcessStatus,
    status_of,
    turn_of,
)
from windlass.errors import ConfigError, IdempotencyConflict, InvalidInput, SessionDeleted
from windlass.guards import check_id, check_text
from windlass.guards.limits import check_page
from windlass.ports import Model, TurnInfo
from windlass.ports.process import PROGRAM, AnyProcess, beginning, process_name, process_ref
from windlass.ports.views import NO_PAGES
from windlass.runtime.program import Program

if TYPE_CHECKING:
    from windlass.engines.admission import Admission

R = TypeVar("R")
_CONFLICT = IdempotencyConflict.code


class Processes:
    """The processes of a runtime's store, whichever worker drives them."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    @overload
    async def start(
        self,
        process: Process[R],
        *,
        id: str | None = None,
        session: str | None = None,
        args: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> ProcessHandle[R]: ...
    @overload
    async def start(
        self,
        process: str,
        *,
        id: str | None = None,
        session: str | None = None,
        args: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> ProcessHandle[Any]: ...
    async def start(
        self,
        process: Process[Any] | str,
        *,
        id: str | None = None,
        session: str | None = None,
        args: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> ProcessHandle[Any]:
        """Start a process, in one commit. After it the process runs, whatever happens here.

        Args:
            process: The process, or its name. If this runtime does not have it, another worker drives it; if only the name
                is known, its arguments are checked when it runs.
            id: The id of the process. If the id is known with the same arguments, nothing is started, and the handle of
                that process is returned.
            session: The session that it belongs to, which must exist; `ctx.wake(None, ...)` wakes it.
            args: The arguments of its function that are called `id`, `session` or `args`.
            **more: The arguments of its function.

        Raises:
            ArgsInvalid: the process does not take these arguments; names the argument.
            IdempotencyConflict: the id is known with other arguments, or belongs to another process.
            UnknownSession: the session does not exist.
            SessionDeleted: the session, or a process of this id, was deleted.
        """
        worker = self._admission.worker
        services = worker.services
        found: AnyProcess = self._declared(process)
        ref = process_ref(services.store.secret, urandom(12).hex() if id is None else id)
        now_ms = services.clock.now_ms()
        errand = beginning(ref, found, {**(args or {}), **more}, now_ms=now_ms)
        if session is not None:
            errand = msgspec.structs.replace(errand, parent=check_id(session, field="session"))
        (receipt,) = await services.store.run_errands([errand], now_ms=now_ms)
        if receipt.code == _CONFLICT:
            said = f"process {ref.id}: was already started with other arguments"
            raise IdempotencyConflict(said, field="id", wanted="the same arguments, or another id")
        if receipt.status == "dropped":
            raise refusal(receipt)
        worker.kick(ref.session_id)
        read = found.read_result if isinstance(found, Process) else None
        return ProcessHandle(self._admission, ref.id, ref.session_id, read)

    def _declared(self, process: Process[Any] | str) -> Process[Any] | str:
        """Return the process of this name; the name itself if this runtime does not have it."""
        if isinstance(process, Process):
            return process
        if not isinstance(process, str):
            raise InvalidInput.at("process", type(process).__name__, "a process or its name")
        program = self._admission.worker.programs.get(f"{PROGRAM}{process_name(process)}")
        spec = None if program is None or program.code is None else program.code.spec
        return spec if isinstance(spec, Process) else process

    def get(self, id: str) -> ProcessHandle[Any]:
        """Return the handle of a process by its id. This does no I/O: if there is no such process, using the handle raises.

        Args:
            id: The id of the process.
        """
        ref = process_ref(self._admission.services.store.secret, id)
        return ProcessHandle(self._admission, ref.id, ref.session_id)

    async def list(
        self,
        *,
        session: str | None = None,
        state: ProcessState | None = None,
        after: str = "",
        limit: int = 100,
    ) -> tuple[ProcessStatus, ...]:
        """Return processes in the order of their session ids, a page at a time, without their records.

        Args:
            session: Only processes that belong to this session.
            state: Only processes in this state.
            after: The `session_id` of the last process of the page before.
            limit: How many to return at most.
        """
        check_text(after, field="after")
        if state is not None and state not in get_args(ProcessState):
            wanted = f"one of: {', '.join(get_args(ProcessState))}"
            raise InvalidInput.at("state", repr(state)[:40], wanted)
        store, left, found = (
            self._admission.services.store,
            check_page(limit),
            list[ProcessStatus](),
        )
        while left > 0:
            page = await store.list_sessions(
                after=after, limit=left, kind="process", started_by=session
            )
            for one in page:
                status = await self._status(one.session_id)
                if status is not None and state in (None, status.state):
                    found.append(status)
            if len(page) < left:
                break
            after, left = page[-1].session_id, limit - len(found)
        return tuple(found)

    async def _status(self, session_id: str) -> ProcessStatus | None:
        try:
            session = await self._admission.services.store.load_session(session_id, history=False)
            return status_of(session, await turn_of(self._admission, session, NO_PAGES))
        except SessionDeleted:
            return None  # since the page was read


class _NoModel:
    """The placeholder for a model: a process has none of its own."""

    name = "none"

    async def complete(self, *_: object) -> Any:  # noqa: ANN401 - never
        raise ConfigError("process: has no model of its own; run a turn of an agent: ctx.turn(...)")


NO_MODEL: Any = _NoModel()
"""The model of a program of code."""


def compiled_processes(
    processes: Sequence[object],
    find_model: Callable[[str], Model | None],
    deps: Mapping[str, Callable[[TurnInfo], Any] | None],
    *,
    field: str = "Runtime.processes",
) -> dict[str, Program]:
    """Return the processes of a runtime as it drives them, by the names of their programs.

    Raises:
        ConfigError: one is not a process, two have the same name, or one lacks its deps.
    """
    programs: dict[str, Program] = {}
    for at, one in enumerate(processes):
        place = f"{field}[{at}]"
        if not isinstance(one, Process):
            found = "a function without @process" if callable(one) else type(one).__name__
            raise ConfigError.at(place, found, "a process, as @process makes one")
        if one.program_name in programs:
            raise ConfigError.at(place, f"a second process called {one.name}", "each name once")
        factory = deps.get(one.name)
        if one.deps_type is not None and factory is None:
            raise ConfigError(
                f"deps: process {one.name} needs deps; give Runtime(deps=...)", field="deps"
            )
        programs[one.program_name] = one.compiled(find_model, NO_MODEL, factory)
    return programs
