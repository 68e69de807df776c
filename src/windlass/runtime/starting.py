"""How a drive starts a turn: what keeps it from being driven here, its deps, and the start record of a new one."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple, NoReturn

import msgspec

from windlass.folds.history import with_opening
from windlass.guards import check_limit, check_text
from windlass.journal import TurnStarted
from windlass.journal.redaction import cleaned
from windlass.kernel import Attachment, Json, Part, Stopped
from windlass.ports import NewTurn, Start, TurnInfo, TurnRequest, TurnView, WaitKind
from windlass.runtime.around_turn import open_turn, with_prompt
from windlass.runtime.hand_off import ViewFault, view_from_before
from windlass.runtime.hooks import Hooks
from windlass.runtime.program import Program
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import ParkTurn
from windlass.runtime.turn_start import (
    DRIVERS,
    NOTHING_SAID,
    GivenPrompt,
    Opening,
    is_compaction,
    plugin_names,
    start_record,
    woken_by,
)

_PLAIN = TurnStarted(agent="", model="")
MAX_TAKEOVERS = 3
NONE_GIVEN: object = object()
"""Stands for deps where the caller gave none: None may be given."""


class Job(msgspec.Struct, kw_only=True):
    """A turn that a worker is to drive: one that is new here, or one that the store has."""

    turn_id: str
    request: TurnRequest
    accept: NewTurn | None = None
    # Whether the store has to have it before anything is asked for it.
    is_accepted_first: bool = False
    view: TurnView | None = None
    generation: int | None = None
    takeovers: int = 0
    # How often it failed in this worker, and with what.
    faults: tuple[int, str] = (0, "")
    deps: object = NONE_GIVEN
    # Whether nothing waited to enter when it was given to this worker, and no drive before this one took anything.
    is_quiet: bool = False

    @property
    def by(self) -> str | None:
        """Who asked for it."""
        asked = self.accept if self.view is None else self.view
        return None if asked is None else asked.by

    @property
    def has_deps(self) -> bool:
        """Whether deps came with it."""
        return self.deps is not NONE_GIVEN

    @property
    def is_new(self) -> bool:
        """Whether no worker has begun it."""
        return self.view is None or self.view.state == "queued"

    @property
    def is_recovered(self) -> bool:
        """Whether another drive of it came before."""
        return self.view is not None and bool(self.view.pages or self.takeovers)


# ---------------------------------------------------------------------- deps


@asynccontextmanager
async def deps_by(factory: Callable[..., Any], info: TurnInfo) -> AsyncIterator[object]:
    """Hold the deps that a factory makes for a drive."""
    made = factory(info)
    if isinstance(made, AbstractAsyncContextManager):
        async with made as deps:
            yield deps
        return
    yield await made if inspect.isawaitable(made) else made


# ---------------------------------------------------------------------- preconditions


def _ask_person(turn: Turn, kind: WaitKind, about: str, title: str, detail: Json = None) -> None:
    """Open the wait that keeps a turn from being driven here; the next worker opens another one."""
    turn.open_wait(kind, about=about, digest=str(turn.generation), title=title, detail=detail)


def is_blocked(turn: Turn, job: Job) -> bool:
    """Whether something keeps a turn from being begun here, and a wait says so: it brings workers down, or lacks deps."""
    if turn.is_cancelled:
        return False
    faults, name = job.faults
    if job.takeovers > MAX_TAKEOVERS or faults >= MAX_TAKEOVERS:
        start_in_store(turn, job)
        last = f"; the last with {name}" if name else ""
        title = f"{max(faults, job.takeovers)} drives of this turn failed{last}"
        detail = {"takeovers": job.takeovers, "fault": name}
        _ask_person(turn, "poison", f"poison/{job.turn_id}", title, detail)
        return True
    if turn.program.needs_deps and _lacks_deps(turn, job):
        start_in_store(turn, job)
        title = f"{turn.program.name} needs deps; run the turn again with them"
        _ask_person(turn, "deps", f"deps/{job.turn_id}", title)
        return True
    return False


def _lacks_deps(turn: Turn, job: Job) -> bool:
    # A compaction runs no tools and needs no deps.
    needs_deps = turn.program.deps is None and not is_compaction(job.request)
    return needs_deps and not job.has_deps and job.view is not None


class MissingCode(NamedTuple):
    """Something that a turn began with, and that is not here."""

    title: str
    about: str
    detail: Json


def missing_code(turn: Turn, started: TurnStarted) -> MissingCode | None:
    """Return what a turn began with and this program does not have: its driver, or a plugin."""
    if started.driver not in DRIVERS:
        title = f"The turn began with the driver {started.driver}, which this worker does not have"
        return MissingCode(title, f"driver/{started.driver}", {"driver": started.driver})
    if started.plugins and not turn.is_cancelled:
        here = turn.program.plugins.names
        missing = [one for one in plugin_names(started) if one not in here]
        if missing:
            title = f"The turn began with the plugin {missing[0]}, which this worker does not have"
            return MissingCode(title, f"plugins/{'/'.join(missing)}", {"plugins": missing})
    return None


def ask_for_code(turn: Turn, missing: MissingCode) -> NoReturn:
    """Leave it to a person what becomes of a turn that began with other code.

    Raises:
        ParkTurn: always.
    """
    _ask_person(turn, "mismatch", missing.about, missing.title, missing.detail)
    raise ParkTurn


# ---------------------------------------------------------------------- the start record


def start_in_store(turn: Turn, job: Job) -> None:
    """Claim a turn that no worker has begun; the claim rides in the open unit."""
    if job.is_new:
        services = turn.services
        now_ms = services.clock.now_ms()
        until_ms = services.held_until_ms = now_ms + services.lease_ms
        turn.lane.start(Start(worker_id=services.worker_id, until_ms=until_ms, now_ms=now_ms))


async def started_anew(
    turn: Turn, hooks: Hooks | None, job: Job, info: TurnInfo, on_begun: Callable[[], None]
) -> TurnStarted:
    """Begin a turn: ask instructions and plugins, and write its start record.

    It is accepted and begun before any plugin is asked: what a plugin's own calls cost is recorded like all the rest.
    """
    program, request, services = turn.program, job.request, turn.services
    now_ms = services.clock.now_ms()
    opening, asks_plugins = NOTHING_SAID, False
    with services.phase("hooks", turn.session_id, turn.turn_id):
        instructions = request.overrides.get("prompt", program.instructions)
        if not isinstance(instructions, str):
            instructions = await _written_by(instructions, turn, job, info)
        if job.accept is not None:
            turn.lane.accept(job.accept)
        start_in_store(turn, job)
        on_begun()
        if job.is_accepted_first:
            await turn.lane.durable()
        turn.begin_drive()
        if hooks is not None and not turn.is_cancelled and not is_compaction(request):
            opening, asks_plugins = await open_turn(hooks, request.input), True
    with services.phase("prompt", turn.session_id, turn.turn_id):
        if asks_plugins or (_has_pieces(program, request) and not turn.is_cancelled):
            given = GivenPrompt.anew(program, request, instructions)
            asked = hooks if asks_plugins else None
            opening = await with_prompt(turn, asked, opening, given)
    parts = request.input if opening.input is None else opening.input
    clean = cleaned(parts, tuple[Part, ...])
    if clean is not parts:  # whoever accepted it did not know the secret
        parts, opening = clean, msgspec.structs.replace(opening, input=clean)
    woken = woken_by((turn.session_id, turn.turn_id), request)
    if woken:
        opening = msgspec.structs.replace(opening, messages=(*opening.messages, *woken))
    if turn.memory.handed_at and opening.ends is None and not is_compaction(request):
        opening = _seen_from_here(turn, opening, parts)
    started = start_record(
        program,
        request,
        opening,
        instructions=instructions,
        head=turn.memory.head,
        now_ms=now_ms,
        accepted_ms=job.accept.now_ms if job.accept is not None else 0,
    )
    started = cleaned(started)
    turn.lane.add(started, blobs=[part.ref for part in parts if type(part) is Attachment])
    return started


def _seen_from_here(turn: Turn, opening: Opening, parts: tuple[Part, ...]) -> Opening:
    """Add to an opening what the agent is shown of a session that was handed off to it."""
    history, place = turn.memory.messages, (turn.session_id, turn.turn_id)
    begun = msgspec.structs.replace(_PLAIN, input=parts, messages=opening.messages)
    history, _ = with_opening(history, place, begun, turn.request)
    if history.length <= turn.memory.handed_at:
        return opening  # nothing is asked of a model
    try:
        view = view_from_before(history, turn.memory.handed_at, turn.program.handoff_view)
    except ViewFault as fault:
        ends = Stopped(reason="runtime_error", detail=str(fault))
        return msgspec.structs.replace(opening, ends=ends)
    return msgspec.structs.replace(opening, view=view)


def _has_pieces(program: Program, request: TurnRequest) -> bool:
    """Whether the prompt is more than instructions, plugins apart. A compaction has one of its own."""
    if program.pieces or program.prompter is not None or "pieces" in request.overrides:
        return not is_compaction(request)
    return False


async def _written_by(make: Callable[..., Any], turn: Turn, job: Job, info: TurnInfo) -> str:
    """Return the instructions that a function writes."""
    lacks_deps = turn.deps is None and turn.program.needs_deps
    if turn.is_cancelled or (is_compaction(job.request) and lacks_deps):
        return ""
    made = make(info, turn.deps)
    instructions: str = await made if inspect.isawaitable(made) else made
    check_text(instructions, field="instructions")
    check_limit("input_text_bytes", len(instructions.encode()), field="instructions")
    return instructions
