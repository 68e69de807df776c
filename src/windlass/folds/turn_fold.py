"""A turn's facts, from its rows: the kernel's own machine, answered by what the journal records.

A live feed shows what the machine says while the turn is driven. The rows of the turn hold all that the machine was
told, so the same machine says the same again, in any process, without the agent, its tools, its plugins or a model.

Law 1. There is no second set of rules: what follows from a row is for the machine to say, with its own ids.
Law 2. Facts are only added. Those of the first pages are the first facts of all pages, and it makes no difference in
    how many portions rows arrive.
Law 3. The facts of a page come before those of the next one. A wait stands behind the pages that its row names, and
    before the page that follows; waits stand in the order in which they were opened.
Law 4. What plugins were to look at is told once it is recorded as looked at, and never before.
"""

from __future__ import annotations

from windlass.errors import InvalidInput
from windlass.folds.answers import Answers, Place, place_in
from windlass.folds.history import with_opening
from windlass.journal.entries import Claimed, Emitted, Recorded, TurnStarted
from windlass.journal.moments import (
    CallReturned,
    CheckpointGiven,
    EventAwaited,
    ProcessAnswered,
    RecordedMoment,
    Slept,
)
from windlass.journal.pages import JournalPage
from windlass.kernel import (
    Chain,
    ConversationRecord,
    Driver,
    Event,
    Message,
    ModelRequest,
    Outcome,
    StandardDriver,
    TurnConfig,
    TurnIds,
    TurnMachine,
)
from windlass.kernel.compaction import COMPACTION, compaction_with
from windlass.kernel.effects import Asked, CallTools
from windlass.kernel.events import (
    InputAccepted,
    ProcessEvent,
    ToolFinished,
    TurnEnded,
    WaitOpened,
    WaitResolved,
)
from windlass.kernel.iteration_limit import MAX_ITERATIONS
from windlass.kernel.messages import Part, Record
from windlass.kernel.model_call import NO_USAGE
from windlass.kernel.process import PROCESS, ProcessDriver
from windlass.kernel.projector import ProjectorView
from windlass.kernel.tool_call import CompletedToolCall
from windlass.kernel.value import Json, set_field
from windlass.ports.children import child_usage_told, usage_in_answer
from windlass.ports.unit import TurnRequest
from windlass.ports.views import TurnView
from windlass.ports.waits import Wait, WaitView

_STANDARD = StandardDriver()
# They tell the same facts: only the outcome differs, and that is stored.
_STANDARD_DRIVERS = ("standard", "structured")


class _Unsent:
    """Makes no requests: what a model was asked is no fact."""

    def project(self, view: ProjectorView) -> ModelRequest:
        return ModelRequest(model=view.config.model, messages=())


_UNSENT = _Unsent()


class TurnFold:
    """What the rows of a turn say so far.

    `history` is what its frame held when it began. Without it a call whose id was in use there has
    another id than it had live, and a turn that sums up has nothing to sum up.

    facts: all so far, in order.
    outcome: how the turn ended, once it has.
    n_pages, n_waits: how many pages of its journal and how many of its waits are in it.
    """

    def __init__(
        self,
        session_id: str,
        turn_id: str,
        request: TurnRequest | None,
        history: Chain[Message] | None = None,
    ) -> None:
        self.session_id = session_id
        self.turn_id = turn_id
        self.facts: list[Event] = []
        self.outcome: Outcome | None = None
        self.n_pages = 0
        self.n_waits = 0
        self._ids = TurnIds(session_id, turn_id)
        self._request = request
        self._history: Chain[Message] = Chain() if history is None else history
        self._answers = Answers()
        self._waits: dict[str, tuple[int, Wait]] = {}
        # The waits of the operations of a process, by the place of the operation.
        self._places: dict[str, str] = {}
        # What children used so far.
        self._of_children = NO_USAGE
        self._machine: TurnMachine | None = None
        # The effect that the machine waits for.
        self._asked: Asked | None = None
        self._opening: tuple[Message, ...] = ()
        self._committed: tuple[Message, ...] | None = None

    @classmethod
    def of(
        cls,
        view: TurnView,
        history: Chain[Message] | None = None,
        *,
        pages: int | None = None,
        waits: int | None = None,
    ) -> TurnFold:
        """Return the fold of a turn: all of it, or its first `pages` and `waits` without its end."""
        fold = cls(view.session_id, view.turn_id, view.request, history)
        if pages is None and waits is None:
            fold.absorb(view)
        else:
            fold._take(view, pages, waits)
        return fold

    def absorb(self, view: TurnView) -> None:
        """Go on with a later view of the turn, read from the page on that comes next, or from an earlier one.

        Raises:
            InvalidInput: a view of another turn, or one that begins behind the page that comes next.
        """
        self._take(view, None, None)
        if view.outcome is not None and self.outcome is None:
            self._end(view, view.outcome)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the turn has said so far; committed messages once it has ended.

        Before its start record there are none, because plugins may still change the input.
        """
        if self._committed is not None:
            return self._committed
        if self._machine is None:
            return self._opening
        return tuple(self._machine.messages[self._history.length :])

    @property
    def records(self) -> tuple[Record, ...]:
        """What of an unfinished turn goes into the history as it stands: its messages so far without transient ones."""
        if self._machine is None:
            return tuple([ConversationRecord(message=message) for message in self._opening])
        return tuple(self._machine.records)

    @property
    def input(self) -> tuple[Part, ...] | None:
        """What the turn was asked, as plugins left it; None before it has begun, and if it was asked nothing."""
        message_id = self._ids.message("in", "input")
        return next((one.parts for one in self.messages if one.id == message_id), None)

    @property
    def returned(self) -> tuple[CompletedToolCall, ...]:
        """The calls that have their result while others of their reply do not, in call order."""
        asked, answers = self._asked, self._answers
        if not isinstance(asked, CallTools) or answers.has_unseen_results:
            return ()
        return answers.results(asked)

    # ------------------------------------------------------------------ rows

    def _take(self, view: TurnView, pages: int | None, waits: int | None) -> None:
        if (view.session_id, view.turn_id) != (self.session_id, self.turn_id):
            raise InvalidInput("view: is of another turn", field="view")
        if view.since > self.n_pages:
            raise InvalidInput.at("view.since", view.since, f"{self.n_pages} or less")
        self._answers.look_ahead(view.pages)
        opened = view.waits if waits is None else view.waits[:waits]
        wanted = view.pages if pages is None else view.pages[: max(0, pages - view.since)]
        for page in wanted[self.n_pages - view.since :]:
            self._open_waits(opened)
            self._read(page)
        self._open_waits(opened)

    def _open_waits(self, waits: tuple[WaitView, ...]) -> None:
        """Tell of the waits that come before the next page."""
        for view in waits[self.n_waits :]:
            if view.page > self.n_pages:
                return
            wait = view.wait
            self.n_waits += 1
            self._waits[wait.key] = (self.n_waits, wait)
            if isinstance(wait.detail, dict) and "at" in wait.detail:
                self._places[str(wait.detail["at"])] = wait.key
            self.facts.append(
                WaitOpened(
                    id=self._ids.event(f"wait{self.n_waits}"),
                    key=wait.key,
                    kind=wait.kind,
                    title=wait.title,
                    call_id=wait.call_id,
                    expires_ms=wait.expires_ms,
                )
            )

    def _read(self, page: JournalPage) -> None:
        self.n_pages += 1
        for entry in page.entries:
            if type(entry) is TurnStarted:
                self._begin(entry)
            elif type(entry) is Recorded or type(entry) is Claimed:
                place = self._answers.note(entry)
                if place is not None and type(entry) is Recorded:
                    self._tell_beside(place, entry.outcome)
                self._advance()
            elif type(entry) is Emitted:
                at = place_in(entry.key)[1]
                told = ProcessEvent(
                    id=self._ids.event(f"{at}.emitted"), name=entry.name, value=entry.value
                )
                self.facts.append(told)

    def _begin(self, started: TurnStarted) -> None:
        self._answers.started = started
        place = (self.session_id, self.turn_id)
        _, self._opening = with_opening(Chain(), place, started, self._request)
        self._advance()

    def _tell_beside(self, place: Place, outcome: RecordedMoment) -> None:
        """Tell what the machine does not say: an answer to a wait, and what was taken out of the inbox."""
        ids = self._ids
        if isinstance(outcome, EventAwaited):
            key = self._answers.waited_for(place)
            self._tell_over(key, outcome.status, outcome.by)
            self._tell_child(key, outcome.value)
        elif isinstance(outcome, (Slept, ProcessAnswered)):
            # What a process waited for at this place, if it did.
            status = outcome.status if isinstance(outcome, ProcessAnswered) else "expired"
            by = outcome.by if isinstance(outcome, ProcessAnswered) else None
            self._tell_over(self._places.get(place[1]), status, by)
            if isinstance(outcome, ProcessAnswered):
                self._tell_child(self._places.get(place[1]), outcome.value)
        elif isinstance(outcome, CallReturned) and "." in place[1]:
            self._tell_step(place, outcome)
        elif isinstance(outcome, CheckpointGiven):
            effect_id = place[1]
            self.facts += [
                InputAccepted(
                    id=ids.event(f"{effect_id}.{item_id}"),
                    correlation_id=ids.correlation(effect_id),
                    input_id=item_id,
                )
                for item_id in outcome.taken
            ]

    def _tell_over(self, key: str | None, status: str, by: str | None) -> None:
        number, wait = self._waits.get(key or "", (0, None))
        if wait is not None:
            over = WaitResolved(
                id=self._ids.event(f"wait{number}.over"),
                key=wait.key,
                kind=wait.kind,
                status=status,
                by=by,
            )
            self.facts.append(over)

    def _tell_child(self, key: str | None, answer: Json) -> None:
        """Tell what a child used whose answer is recorded."""
        number, wait = self._waits.get(key or "", (0, None))
        if wait is None or wait.kind != "child":
            return
        for line in usage_in_answer(wait, answer):
            self._of_children = self._of_children + line.usage
        for at, told in enumerate(child_usage_told(wait, answer, self._of_children), 1):
            set_field(told, "id", self._ids.event(f"wait{number}.used{at}"))
            self.facts.append(told)

    def _tell_step(self, place: Place, returned: CallReturned) -> None:
        """Tell of a step of a process: its machine knows only the end of the whole function."""
        ran = self._answers.ran(place[:-1])
        if ran is not None:
            about = f"{place[1]}.{place[2]}"
            finished = ToolFinished(
                id=self._ids.event(f"{about}.end"),
                correlation_id=self._ids.correlation(about),
                call_id=ran.call_id,
                name=ran.name,
                args=ran.args,
                outcome=returned.outcome,
                duration_ms=returned.duration_ms,
            )
            self.facts.append(finished)

    # ------------------------------------------------------------------ the machine

    def _advance(self) -> None:
        """Let the machine say what follows from the rows so far."""
        machine = self._machine
        if machine is None:
            machine = self._machine = self._new_machine()
            if machine is None:
                return
            self._asked = self._heard(machine)
        while self._asked is not None:
            answer = self._answers.to(self._asked)
            if answer is None:
                return
            machine.respond(answer)
            self._asked = self._heard(machine)

    def _heard(self, machine: TurnMachine) -> Asked | None:
        """Take in what the machine says; return what it asks for next. Its end is told when it is stored."""
        said: list[Event] = []
        asked = machine.advance(said)
        self.facts += [one for one in said if not one.preview and type(one) is not TurnEnded]
        return asked

    def _new_machine(self) -> TurnMachine | None:
        """Return the machine, once enough is known to make it. Of a driver that is not known nothing is."""
        started, syncs = self._answers.started, self._answers.syncs
        if started is None:
            return None
        driver: Driver = _STANDARD
        if started.driver == COMPACTION:
            said = {} if self._request is None else self._request.overrides.get("compact", {})
            driver, syncs = compaction_with(said), False
        elif started.driver == PROCESS:
            driver, syncs = ProcessDriver(started.agent), False
        elif started.driver not in _STANDARD_DRIVERS or syncs is None:
            return None
        place = (self.session_id, self.turn_id)
        config = TurnConfig(
            driver=driver,
            projector=_UNSENT,
            model=started.model,
            session_id=self.session_id,
            turn_id=self.turn_id,
            max_iterations=None
            if started.driver == COMPACTION
            else started.limits.get("max_iterations", MAX_ITERATIONS),
            sync_environment=syncs,
            termination=started.termination,
            progress=False,
        )
        messages, opening = with_opening(self._history, place, started, self._request)
        records = tuple([ConversationRecord(message=message) for message in opening])
        return TurnMachine(config, messages, records=records)

    # ------------------------------------------------------------------ the end

    def _end(self, view: TurnView, outcome: Outcome) -> None:
        self.outcome = outcome
        machine = self._machine
        if machine is not None and not machine.is_done and not view.is_reclaimed:
            machine.finish(outcome, self.returned)  # the end cuts the others off
            self._heard(machine)
        self._asked = None
        if view.page is not None:
            nodes = view.page.nodes
            self._committed = tuple(
                [node.message for node in nodes if type(node) is ConversationRecord]
            )
        ids = self._ids
        self.facts.append(
            TurnEnded(id=ids.event("end"), correlation_id=ids.correlation("0"), outcome=outcome)
        )


def facts_of(view: TurnView, history: Chain[Message] | None = None) -> tuple[Event, ...]:
    """Return the facts of a turn as its rows hold them; of a turn whose journal is gone, its end."""
    return tuple(TurnFold.of(view, history).facts)
