"""What a turn leaves behind for later turns: messages that plugins put into the inbox, a wish for a new frame."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.journal import TurnFinalized
from windlass.kernel.ids import TurnIds
from windlass.kernel.messages import Message
from windlass.kernel.value import Json
from windlass.ports import NewItem
from windlass.ports.directives import Finale
from windlass.runtime.plugin_states import Patches
from windlass.runtime.start_hooks import by_plugin


def finalized(
    ids: TurnIds, finales: Iterable[tuple[str, Finale]], patches: Patches
) -> TurnFinalized:
    """Return what is recorded of what plugins leave behind."""
    messages: list[Message] = []
    issues: list[str] = []
    compact: Json = None
    for plugin, finale in finales:
        for entering in by_plugin(finale.messages, plugin):  # type: ignore[arg-type]  # read
            message_id = ids.message("end", f"{plugin}.{len(messages)}")
            messages.append(
                Message(id=message_id, role="user", parts=entering.parts, origin=entering.origin)
            )
        issues += finale.issues
        if compact is None and finale.compact is not False:
            compact = {} if finale.compact is True else dict(finale.compact)
    return TurnFinalized(
        messages=tuple(messages), issues=tuple(issues), patches=dict(patches), compact=compact
    )


def follow_ups(ids: TurnIds, left: TurnFinalized) -> tuple[NewItem, ...]:
    """Return the inbox items of what is left behind: a new frame first, so that the rest is said in it."""
    items: list[NewItem] = []
    if left.compact is not None:
        content = {"command": "compact", "options": left.compact}
        item_id = f"{ids.prefix}.compact"
        items.append(NewItem(item_id=item_id, kind="command", when="next_turn", content=content))
    for at, message in enumerate(left.messages):
        content = {"parts": msgspec.to_builtins(message.parts)}
        items.append(NewItem(item_id=f"{ids.prefix}.after.{at}", when="next_turn", content=content))
    return tuple(items)
