"""Checkpoints: where input that came meanwhile enters a turn, and an answer of the wrong shape is sent back."""

from __future__ import annotations

import msgspec

from windlass.journal import CheckpointCommand, CheckpointGiven
from windlass.kernel import events
from windlass.kernel.effects import RunCheckpoint
from windlass.kernel.messages import InputOrigin, Message, Part, PluginOrigin, Text, TurnCause
from windlass.kernel.responses import CheckpointDelivery, CheckpointPassed, InjectedMessage
from windlass.kernel.value import Json
from windlass.ports import InboxItem
from windlass.runtime.program import Output
from windlass.runtime.structured_driver import read_value
from windlass.runtime.turn_in_hand import TurnInHand

_REPAIR = PluginOrigin(plugin="output")
REPAIR = (
    "Your answer does not have the shape that was asked for: {error}\n"
    "Answer again with nothing but a JSON value of that shape."
)


class Checkpoints:
    """Performs the checkpoints of one turn."""

    def __init__(self, hand: TurnInHand, output: Output | None) -> None:
        self._hand = hand
        self._output = output
        self._repairs = 0
        # Inbox items that are part of this turn.
        self.taken: list[str] = []
        # Whether something may be waiting in the inbox; asking the store each time would cost a write.
        self.has_mail = False

    async def run(self, effect: RunCheckpoint, messages: tuple[Message, ...]) -> CheckpointPassed:
        """Answer the machine's checkpoint; `messages` are the turn's last."""
        hand = self._hand
        envelope = hand.envelope(CheckpointCommand(checkpoint=effect.kind), str(effect.id))
        known = hand.answer_to(envelope, CheckpointGiven)
        if known is not None:
            self.taken += [item for item in known.taken if item not in self.taken]
            if isinstance(known.delivery, CheckpointDelivery):
                self._repairs += sum(m.origin == _REPAIR for m in known.delivery.messages)
            return CheckpointPassed(id=effect.id, delivery=known.delivery)
        if hand.was_passed(effect.id):
            return CheckpointPassed(id=effect.id)
        items = await self._mail()
        entering = tuple(message for item in items if (message := _message(item)))
        causes = tuple(cause for item in items if (cause := _cause(item)))
        if effect.kind == "before_completion" and not entering and not causes:
            entering = self._repair(messages)
        if not entering and not causes:
            return CheckpointPassed(id=effect.id)
        hand.go_live()
        delivery = CheckpointDelivery(messages=entering, causes=causes)
        taken = tuple(item.item_id for item in items)
        self.taken += taken
        hand.record(envelope, CheckpointGiven(delivery=delivery, taken=taken))
        for item_id in taken:
            hand.tell_fact(events.InputAccepted(input_id=item_id), str(effect.id))
        return CheckpointPassed(id=effect.id, delivery=delivery)

    async def _mail(self) -> tuple[InboxItem, ...]:
        if not self.has_mail:
            return ()
        self.has_mail = False
        hand = self._hand
        # The turn has to be under way in the store before it can take anything.
        await hand.lane.durable()
        items = await hand.world.store.take_inbox(
            hand.session_id, hand.turn_id, generation=hand.generation
        )
        return tuple(item for item in items if item.item_id not in self.taken)

    def _repair(self, messages: tuple[Message, ...]) -> tuple[InjectedMessage, ...]:
        output = self._output
        if output is None or self._repairs >= self._hand.limits.output_retries:
            return ()
        said = "".join(
            part.text for message in messages[-1:] for part in message.parts if type(part) is Text
        )
        try:
            output.check(read_value(said))
        except ValueError as error:
            self._repairs += 1
            text = REPAIR.format(error=error)
            return (InjectedMessage(role="user", parts=(Text(text=text),), origin=_REPAIR),)
        return ()


def item_parts(content: Json) -> tuple[Part, ...]:
    """Return the parts that an item brings."""
    if isinstance(content, dict) and "parts" in content:
        parts: tuple[Part, ...] = msgspec.convert(content["parts"], tuple[Part, ...])
        return parts
    return ()


def _message(item: InboxItem) -> InjectedMessage | None:
    parts = item_parts(item.content) if item.kind == "input" else ()
    if not parts:
        return None
    origin = InputOrigin(turn_id=item.turn_id or "", input_id=item.item_id)
    return InjectedMessage(role="user", parts=parts, origin=origin)


def _cause(item: InboxItem) -> TurnCause | None:
    if item.kind != "wake":
        return None
    content = item.content if isinstance(item.content, dict) else {}
    return TurnCause(
        id=item.item_id,
        event_type=str(content.get("event_type", "wake")),
        origin=InputOrigin(turn_id=item.turn_id or "", input_id=item.item_id),
        text=str(content.get("text", "")),
    )
