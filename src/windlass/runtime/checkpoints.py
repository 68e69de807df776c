"""Checkpoints: where input that came meanwhile enters a turn, and an answer of the wrong shape is sent back.

Law 1. Only a turn that is live takes something from the inbox. What an earlier drive took is in the journal.
Law 2. A turn that waits for nothing but children or a time has no checkpoint until they answer, and is woken by an item
    for now. It takes the item at once and parks again: what it took comes again at its next checkpoint, and what it
    ends without waits in the inbox again.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.journal import CheckpointCommand, CheckpointGiven
from windlass.journal.redaction import cleaned
from windlass.kernel import CheckpointPassed, CompletedToolCall, Outcome, RunCheckpoint, events
from windlass.kernel.messages import InputOrigin, Message, PluginOrigin, Text, TurnCause, answer_in
from windlass.kernel.outcomes import Stopped
from windlass.kernel.responses import NOTHING_CAME, CheckpointDelivery, InjectedMessage
from windlass.kernel.value import EMPTY_DICT
from windlass.ports import AtCheckpoint, InboxItem, Refuse
from windlass.ports.inbox import item_parts, wake_in
from windlass.ports.waits import has_children, waits_for_itself
from windlass.runtime.around_turn import hooked_delivery, hooked_input
from windlass.runtime.hooks import Hooks
from windlass.runtime.outputs import read_value
from windlass.runtime.program import Output
from windlass.runtime.turn import Keyed, Turn

_REPAIR = PluginOrigin(plugin="output")
REPAIR = (
    "Your answer does not have the shape that was asked for: {error}\n"
    "Answer again with nothing but a JSON value of that shape."
)

_MOST_AT_ONCE = 64


class Checkpoints:
    """Performs the checkpoints of one turn."""

    def __init__(self, turn: Turn, output: Output | None, hooks: Hooks | None) -> None:
        self._turn = turn
        self._output = output
        self._hooks = hooks
        self._has_plugins = hooks is not None and bool(hooks.plugins.having("at_checkpoint"))
        self._repairs = 0
        # How many of the turn's calls plugins have been shown.
        self._n_shown = 0
        # Inbox items that are part of this turn.
        self.taken: list[str] = []
        # Whether something may be waiting in the inbox; asking the store each time would cost a write.
        self.has_items = False

    def passes_at_once(self, effect: RunCheckpoint) -> bool:
        """Whether nothing can come in at this checkpoint, and it need not be waited for."""
        return not (
            self.has_items
            or self._has_plugins
            or self._turn.recovery is not None
            or (self._output is not None and effect.kind == "before_completion")
        )

    async def run(
        self, effect: RunCheckpoint, messages: Sequence[Message], ending: Outcome | None
    ) -> CheckpointPassed:
        """Answer the machine's checkpoint; `messages` are the history so far, `ending` how it would end here.

        Raises:
            TurnOver: a plugin ends the turn.
        """
        turn, hooks = self._turn, self._hooks
        results = self._new_results() if self._has_plugins else ()
        if turn.recovery is not None:
            known = turn.recovery.answer_to(self._keyed(effect), CheckpointGiven)
            if known is not None:
                turn.has_files = True
                self._take_up(known)
                return CheckpointPassed(id=effect.id, delivery=known.delivery)
            if turn.was_passed(effect.id):
                return CheckpointPassed(id=effect.id)
        items: tuple[InboxItem, ...] = ()
        if self.has_items:
            turn.go_live()
            items = await self._take_items()
        delivery = await self._entering(items, effect) if items else NOTHING_CAME
        if self._has_plugins and hooks is not None:
            turn.go_live()
            at = AtCheckpoint(
                kind=effect.kind, results=results, outcome=ending, reply=turn.last_reply
            )
            delivery = await hooked_delivery(hooks, delivery, at, effect.id)
        if effect.kind == "before_completion" and delivery is NOTHING_CAME:
            repair = self._repair(messages, ending)
            delivery = CheckpointDelivery(messages=repair) if repair else delivery
        patches = EMPTY_DICT if hooks is None else hooks.place.take()
        if delivery is NOTHING_CAME and not items and not patches:
            return CheckpointPassed(id=effect.id)
        turn.go_live()
        turn.has_files = True  # what came in may have some
        taken = tuple(item.item_id for item in items)
        self.taken += taken
        given = cleaned(
            CheckpointGiven(
                delivery=delivery,
                taken=taken,
                patches=patches,
                issues=() if hooks is None else hooks.place.take_issues(),
            )
        )
        turn.record(self._keyed(effect), given)
        for item_id in taken:
            accepted = events.InputAccepted(input_id=item_id)
            turn.tell_fact(accepted, f"{effect.id}.{item_id}", str(effect.id))
        return CheckpointPassed(id=effect.id, delivery=given.delivery)

    def _keyed(self, effect: RunCheckpoint) -> Keyed:
        return self._turn.keyed(CheckpointCommand(checkpoint=effect.kind), str(effect.id))

    def _take_up(self, known: CheckpointGiven) -> None:
        """Take in what a recorded checkpoint brought."""
        self.taken += [item for item in known.taken if item not in self.taken]
        if self._hooks is not None:
            self._hooks.take_up(known.patches, known.issues)
        if isinstance(known.delivery, CheckpointDelivery):
            self._repairs += sum(m.origin == _REPAIR for m in known.delivery.messages)

    def _new_results(self) -> tuple[CompletedToolCall, ...]:
        completed = self._turn.completed
        found = tuple(completed[self._n_shown :])
        self._n_shown = len(completed)
        return found

    async def _entering(
        self, items: tuple[InboxItem, ...], effect: RunCheckpoint
    ) -> CheckpointDelivery:
        """Return what the items bring, as plugins let it in."""
        messages: list[InjectedMessage] = []
        causes: list[TurnCause] = []
        for item in items:
            origin = InputOrigin(turn_id=item.turn_id or "", input_id=item.item_id)
            if item.kind == "wake":
                causes.append(_cause(item))
            parts = item_parts(item.content) if item.kind == "input" else ()
            if parts and self._hooks is not None:
                found = await hooked_input(self._hooks, parts, f"{effect.id}.{item.item_id}")
                if isinstance(found, Refuse):
                    why = found.reason or "a plugin refused it"
                    self._hooks.note(f"{item.item_id} did not enter: {why}", "input_refused")
                    continue
                parts = found
            if parts:
                messages.append(InjectedMessage(role="user", parts=parts, origin=origin))
        return CheckpointDelivery(messages=tuple(messages), causes=tuple(causes))

    async def hold_items(self) -> None:
        """Take what waits for now before the turn parks, so that no item wakes it twice."""
        turn = self._turn
        if not (self.has_items and turn.is_live and waits_for_itself(turn.waits.values())):
            return
        store, session_id = turn.services.store, turn.session_id
        items = (await store.inbox(session_id)).items
        if any(item.when == "now" and item.state == "pending" for item in items):
            await turn.lane.durable()
            await store.take_inbox(
                session_id, turn.turn_id, generation=turn.generation, limit=len(items)
            )

    async def _take_items(self) -> tuple[InboxItem, ...]:
        """Take what waits for now: all of it, or the oldest alone and the rest at the checkpoints that follow."""
        self.has_items = False
        turn = self._turn
        store, most = turn.services.store, 1 if turn.program.steering == "one" else _MOST_AT_ONCE
        if "tree" in turn.request.overrides or has_children(turn.waits.values()):
            # It is taken up for what others answer, mostly not for items: a look costs no commit, and what was done so
            # far need not be written for it.
            waiting = (await store.inbox(turn.session_id)).items
            if not any(item.when == "now" or item.turn_id == turn.turn_id for item in waiting):
                return ()
        # The turn has to be under way in the store before it can take anything.
        await turn.lane.durable()
        # What it took before comes again, and counts.
        found = await store.take_inbox(
            turn.session_id, turn.turn_id, generation=turn.generation, limit=len(self.taken) + most
        )
        items = tuple(item for item in found if item.item_id not in self.taken)[:most]
        if len(items) == most:
            left = (await store.inbox(turn.session_id)).items
            taken = {*self.taken, *(item.item_id for item in items)}
            if any(one.when == "now" and one.item_id not in taken for one in left):
                self.has_items = True
        return items

    def _repair(
        self, messages: Sequence[Message], ending: Outcome | None
    ) -> tuple[InjectedMessage, ...]:
        output = self._output
        if output is None or self._repairs >= self._turn.limits.output_retries:
            return ()
        if isinstance(ending, Stopped) and ending.reason == "unfinished":
            return ()  # a tool has to end the turn: words of any shape would not do
        said = answer_in(messages[-1].parts) if messages else ""
        try:
            output.check(read_value(said))
        except ValueError as error:
            self._repairs += 1
            text = REPAIR.format(error=error)
            return (InjectedMessage(role="user", parts=(Text(text=text),), origin=_REPAIR),)
        return ()


def _cause(item: InboxItem) -> TurnCause:
    said = wake_in(item.content)
    origin = said.origin(item.item_id, item.turn_id or "")
    return TurnCause(id=item.item_id, event_type=said.event_type, origin=origin, text=said.text)
