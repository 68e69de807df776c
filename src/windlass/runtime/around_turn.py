"""How plugins take part in a turn around its work: its beginning, its checkpoints, its end, and what follows.

What plugins are told beside a turn (`on_session_open`, `after_commit`) is best effort, may repeat, and never holds up a
turn.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterable
from typing import Any

import msgspec

from windlass.errors import LimitExceeded
from windlass.guards.limits import check_limit
from windlass.journal import TurnFinalized
from windlass.kernel.ids import TurnIds
from windlass.kernel.messages import Message, Part, PluginOrigin
from windlass.kernel.outcomes import Outcome, Stopped
from windlass.kernel.responses import CheckpointDelivery, InjectedMessage
from windlass.kernel.value import Json
from windlass.ports import NewItem
from windlass.ports.directives import Abort, Finale, Refuse, Stop
from windlass.ports.plugin import AtCheckpoint, CommittedTurn
from windlass.ports.prompt import Contribution, render_prompt
from windlass.runtime.hooked_turn import Patches
from windlass.runtime.hooks import Hooks
from windlass.runtime.plugin_set import name_of
from windlass.runtime.program import Program
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.turn_record import TurnRecord
from windlass.runtime.turn_signals import PluginFault, TurnOver
from windlass.runtime.turn_start import Opening

_log = logging.getLogger("windlass")
_FIRST = -100


async def open_turn(hooks: Hooks, given: tuple[Part, ...]) -> Opening:
    """Ask the plugins how a turn is to begin; what they raise ends it."""
    try:
        parts = await hooked_input(hooks, given, "0")
    except PluginFault as fault:
        # The plugin that was to look at the input failed: nothing of the input is kept.
        return Opening(input=(), patches=hooks.take(), ends=fault.outcome)
    if isinstance(parts, Refuse):
        ends = _refused(parts.reason, "The input was refused.")
        return Opening(input=(), patches=hooks.take(), ends=ends)
    changed = None if parts == given else parts
    try:
        said = await _before_turn(hooks)
    except PluginFault as fault:
        return Opening(input=changed, patches=hooks.take(), ends=fault.outcome)
    if isinstance(said, Abort):
        ends = _refused(said.reason, "A plugin did not let the turn begin.")
        return Opening(input=changed, patches=hooks.take(), ends=ends)
    return Opening(input=changed, messages=said)


async def with_prompt(
    hooks: Hooks, opening: Opening, instructions: str, *, is_override: bool
) -> Opening:
    """Add to an opening the prompt that plugins make of the instructions, and all that they changed."""
    if opening.ends is not None:
        return opening
    try:
        prompt = await hooked_prompt(hooks, "0", instructions, is_override=is_override)
    except PluginFault as fault:
        return msgspec.structs.replace(opening, patches=hooks.take(), ends=fault.outcome)
    made = None if prompt == instructions else prompt
    return msgspec.structs.replace(opening, prompt=made, patches=hooks.take())


async def hooked_input(
    hooks: Hooks, parts: tuple[Part, ...], place: str
) -> tuple[Part, ...] | Refuse:
    """Return what the turn takes of a person's input."""
    bound, at = hooks.having("on_input"), 0
    while at < len(bound):
        at, said = await hooks.ask_from(bound, at, "on_input", place, parts)
        if isinstance(said, Refuse):
            return said
        parts = parts if said is None else said
        at += 1
    return parts


async def _before_turn(hooks: Hooks) -> tuple[Message, ...] | Abort:
    messages: list[Message] = []
    bound, at = hooks.having("before_turn"), 0
    while at < len(bound):
        at, said = await hooks.ask_from(bound, at, "before_turn", "0")
        if said is None:
            break
        if isinstance(said, Abort):
            return said
        name = bound[at].name
        at += 1
        for entering in by_plugin(said, name):
            purpose = f"{name}.{len(messages)}"
            messages.append(
                Message(
                    id=hooks.turn.ids.message("in", purpose),
                    role=entering.role,  # type: ignore[arg-type]  # checked
                    parts=entering.parts,
                    origin=entering.origin,
                )
            )
    return tuple(messages)


async def hooked_prompt(hooks: Hooks, place: str, instructions: str, *, is_override: bool) -> str:
    """Return the system prompt of the iteration that begins."""
    bound, at = hooks.having("prompt"), 0
    said: list[Contribution] = []
    while at < len(bound):
        at, more = await hooks.ask_from(bound, at, "prompt", place)
        said += more or ()
        at += 1
    if not said:
        return instructions
    layer, replaces = ("turn", True) if is_override else ("agent", False)
    pieces = [
        Contribution(instructions, slot="intro", priority=_FIRST, layer=layer, replaces=replaces)  # type: ignore[arg-type]  # a layer
    ]
    prompt = render_prompt([*pieces, *said], [tool.name for tool in hooks.turn.offered])
    try:
        check_limit("input_text_bytes", len(prompt.encode()), field="prompt")
    except LimitExceeded as error:
        names = " or ".join(one.name for one in bound)
        raise PluginFault(names, "prompt", error, is_ours=True) from error
    return prompt


def by_plugin(said: Iterable[InjectedMessage], plugin: str) -> tuple[InjectedMessage, ...]:
    """Return a plugin's messages, which say that they are its."""
    origin = PluginOrigin(plugin=plugin)
    return tuple(msgspec.structs.replace(one, origin=origin) for one in said)


def _refused(reason: str, default: str) -> Outcome:
    return Stopped(reason="refused", detail=reason or default)


async def hooked_delivery(
    hooks: Hooks, inbox: CheckpointDelivery, at: AtCheckpoint, effect_id: int
) -> CheckpointDelivery:
    """Return what enters: what the inbox had, then what each plugin adds.

    Raises:
        TurnOver: a plugin ends the turn.
    """
    messages, transient, causes = [*inbox.messages], [*inbox.transient_messages], [*inbox.causes]
    bound, number = hooks.having("at_checkpoint"), 0
    while number < len(bound):
        number, said = await hooks.ask_from(bound, number, "at_checkpoint", str(effect_id), at)
        if said is None:
            break
        name = bound[number].name
        number += 1
        if isinstance(said, Stop):
            raise TurnOver(hooks.stopped(said, "limit", name))
        messages += by_plugin(said.messages, name)
        transient += by_plugin(said.transient, name)
        causes += said.causes
    if not messages and not transient and not causes:
        return inbox
    return CheckpointDelivery(
        messages=tuple(messages), transient_messages=tuple(transient), causes=tuple(causes)
    )


async def hooked_end(hooks: Hooks, outcome: Outcome) -> tuple[tuple[str, Finale], ...]:
    """Ask the plugins what follows the turn; one that fails is noted, and adds nothing."""
    found: list[tuple[str, Finale]] = []
    for bound in hooks.having("after_turn"):
        try:
            said = await hooks.ask(bound, "after_turn", "end", outcome)
            if said is not None:
                found.append((bound.name, said))
        except PluginFault as fault:
            hooks.turn.note_issue(str(fault), "plugin_failed")
    return tuple(found)


def finalized(
    ids: TurnIds, finales: Iterable[tuple[str, Finale]], patches: Patches
) -> TurnFinalized:
    """Return the record of what follows the turn."""
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
    """Return the inbox items that follow the turn: a new frame first, so that the messages begin in it."""
    items: list[NewItem] = []
    if left.compact is not None:
        content = {"command": "compact", "options": left.compact}
        item_id = f"{ids.prefix}.compact"
        items.append(NewItem(item_id=item_id, kind="command", when="next_turn", content=content))
    for at, message in enumerate(left.messages):
        content = {"parts": msgspec.to_builtins(message.parts)}
        items.append(NewItem(item_id=f"{ids.prefix}.after.{at}", when="next_turn", content=content))
    return tuple(items)


def announce_session(services: Services, program: Program, memory: SessionMemory) -> None:
    """Tell plugins that a session is loaded here, once while it is."""
    if memory.is_announced:
        return
    memory.is_announced = True
    for plugin in program.plugins.having("on_session_open"):
        told = plugin.on_session_open(program.name, memory.session_id)
        services.aside.start(
            _logged(told, name_of(plugin), "on_session_open"), name="windlass-open"
        )


def announce_commit(services: Services, program: Program, record: TurnRecord) -> None:
    """Tell plugins that a turn is in the history."""
    plugins = program.plugins.having("after_commit")
    if not plugins:
        return
    ended = CommittedTurn(
        agent=program.name,
        session_id=record.session_id,
        turn_id=record.turn_id,
        outcome=record.outcome,
    )
    for plugin in plugins:
        told = plugin.after_commit(ended)
        services.aside.start(_logged(told, name_of(plugin), "after_commit"), name="windlass-commit")


async def _logged(told: Coroutine[Any, Any, None], plugin: str, hook: str) -> None:
    try:
        await told
    except Exception:  # noqa: BLE001 - what a plugin raises here concerns no turn
        _log.exception("the plugin %s failed in %s", plugin, hook)
