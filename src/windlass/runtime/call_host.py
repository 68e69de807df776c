"""What stands behind a tool's context: the call it runs in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from windlass.errors import CallerError, InvalidInput, ToolError
from windlass.guards import check_limit
from windlass.guards.limits import check_seconds
from windlass.journal import AwaitEventCommand, Claimed
from windlass.kernel import events
from windlass.kernel.messages import Attachment, Message
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.kernel.value import Json
from windlass.ports.tool import Pending
from windlass.runtime.turn import Turn

if TYPE_CHECKING:
    from windlass.runtime.model_calls import ModelCalls


class CallHost:
    """One running call: shows its progress, keeps its files, opens its wait, buys its replies."""

    def __init__(
        self, hand: Turn, models: ModelCalls, *, place: str, call_id: str, name: str
    ) -> None:
        self._hand = hand
        self._models = models
        self._place = place
        self._call_id = call_id
        self._name = name
        self.deferred: str | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether the turn was cancelled."""
        return self._hand.is_cancelled

    def progress(self, data: Json) -> None:
        """Show how far it is, from any thread."""
        # A preview that cannot be shown is no reason for a call to fail.
        with suppress(CallerError):
            event = events.ToolProgress(call_id=self._call_id, name=self._name, data=data)
            self._hand.tell_from_thread(event, self._place)

    async def attach(self, data: bytes, media_type: str, name: str | None) -> Attachment:
        """Keep bytes."""
        if not isinstance(data, bytes):
            found = type(data).__name__
            raise InvalidInput(f"attach: found {found}, wanted bytes", field="data", found=found)
        check_limit("attachment_bytes", len(data), field="data")
        store = self._hand.services.store
        ref = await store.put_blob(data, now_ms=self._hand.services.clock.now_ms())
        self._hand.blobs.append(ref)
        return Attachment(ref=ref, media_type=media_type, name=name, n_bytes=len(data))

    async def defer(self, deadline_s: float | None) -> Pending:
        """Open the call's wait; the same one when the body runs again."""
        check_seconds(deadline_s, field="deadline")
        hand = self._hand
        now_ms = hand.services.clock.now_ms()
        view = hand.open_wait(
            "deferred",
            about=f"{hand.session_id}/{hand.turn_id}/{self._place}",
            digest="deferred",
            title=f"{self._name} waits for its result",
            detail={"tool": self._name},
            call_id=self._call_id,
            expires_ms=None if deadline_s is None else now_ms + int(deadline_s * 1000),
        )
        await hand.lane.durable()
        self.deferred = view.wait.key
        return Pending(view.wait.key)

    @property
    def messages(self) -> Sequence[Message]:
        """The frame's history."""
        return self._hand.history_now()

    async def read(self, ref: str) -> bytes:
        """Return bytes that this session refers to; a digest that somebody guessed is none of them."""
        if ref not in self._hand.blobs and not any(map(_refers_to(ref), self.messages)):
            raise ToolError("There is no attachment of this id in this session.")
        return await self._hand.services.store.get_blob(ref)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask a model."""
        return await self._models.direct(request, self._place, f"tool:{self._name}")


def _refers_to(ref: str) -> Callable[[Message], bool]:
    def refers(message: Message) -> bool:
        parts = (one for part in message.parts for one in getattr(part, "content", (part,)))
        return any(type(one) is Attachment and one.ref == ref for one in parts)

    return refers


def deferred_claim(hand: Turn, place: str, key: str) -> Claimed:
    """Return the entry which says that the body has ended and its result comes from outside."""
    return Claimed.of(hand.envelope(AwaitEventCommand(wait_key=key), f"{place}.deferred"))
