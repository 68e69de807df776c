"""How plugins take part in a turn around its work: its beginning, its checkpoints, its end, and what follows.

What plugins are told beside a turn (`on_session_open`, `after_commit`) is best effort, may repeat, and never holds up a
turn.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, Literal

import msgspec

from windlass.errors import InvalidInput, LimitExceeded
from windlass.guards.limits import check_limit
from windlass.guards.text import check_text
from windlass.journal import TurnFinalized
from windlass.kernel import Json, Message, Outcome, Part, PluginOrigin, Stopped, TurnIds
from windlass.kernel.responses import CheckpointDelivery, InjectedMessage
from windlass.kernel.value import EMPTY_DICT
from windlass.ports import Abort, AtCheckpoint, CommittedTurn, NewItem, Refuse, Stop
from windlass.ports.prompt import Contribution, Layer, render_prompt
from windlass.runtime.hooks import Hooks, stopped
from windlass.runtime.plugin_set import name_of
from windlass.runtime.program import Program
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.turn import Turn
from windlass.runtime.turn_record import TurnRecord
from windlass.runtime.turn_signals import PluginFault, PromptFault, TurnOver
from windlass.runtime.turn_start import GivenPrompt, Opening

_log = logging.getLogger("windlass")
_FIRST = -100


async def open_turn(hooks: Hooks, given: tuple[Part, ...]) -> Opening:
    """Ask the plugins how a turn is to begin; what they raise ends it."""
    # If the plugins that are to look at the input do not come to an end, nothing of it is kept.
    changed: tuple[Part, ...] | None = ()
    messages: tuple[Message, ...] = ()
    ends: Outcome | None = None
    try:
        parts = await hooked_input(hooks, given, "0")
        if isinstance(parts, Refuse):
            return Opening(input=(), ends=_refused(parts.reason, "The input was refused."))
        changed = None if parts == given else parts
        said = await _before_turn(hooks)
        if isinstance(said, Abort):
            ends = _refused(said.reason, "A plugin did not let the turn begin.")
        else:
            messages = said
    except PluginFault as fault:
        ends = fault.outcome
    return Opening(input=changed, messages=messages, ends=ends)


async def with_prompt(
    turn: Turn, hooks: Hooks | None, opening: Opening, given: GivenPrompt
) -> Opening:
    """Add to an opening the prompt that is made of the instructions, and all that plugins changed."""
    made, ends = None, opening.ends
    if ends is None:
        try:
            prompt = await written_prompt(turn, hooks, "0", given)
            made = None if prompt == given.instructions else prompt
        except PluginFault as fault:
            ends = fault.outcome
    patches = EMPTY_DICT if hooks is None else hooks.place.take()
    return msgspec.structs.replace(
        opening, prompt=made, pieces=given.pieces, patches=patches, ends=ends
    )


async def hooked_input(
    hooks: Hooks, parts: tuple[Part, ...], place: str
) -> tuple[Part, ...] | Refuse:
    """Return what the turn takes of a person's input."""
    asked = hooks.start("on_input", place)
    asked.about = place.partition(".")[0]
    while (said := await asked.next(parts)) is not None:
        if isinstance(said, Refuse):
            return said
        parts = said
    return parts


async def _before_turn(hooks: Hooks) -> tuple[Message, ...] | Abort:
    messages: list[Message] = []
    asked = hooks.start("before_turn", "0")
    while (said := await asked.next()) is not None:
        if isinstance(said, Abort):
            return said
        messages += _messages(hooks.turn.ids, "in", asked.plugin, said, len(messages))
    return tuple(messages)


def _messages(
    ids: TurnIds, at: Literal["in", "end"], plugin: str, said: Iterable[Any], n_before: int
) -> list[Message]:
    """Return the messages that a plugin adds where the turn begins or ends; so many were added before."""
    return [
        Message(
            id=ids.message(at, f"{plugin}.{number}"),
            role="user" if at == "end" else one.role,
            parts=one.parts,
            origin=PluginOrigin(plugin=plugin),
        )
        for number, one in enumerate(said, n_before)
    ]


async def written_prompt(turn: Turn, hooks: Hooks | None, place: str, given: GivenPrompt) -> str:
    """Return the system prompt of the iteration that begins.

    Raises:
        PluginFault: a plugin or the prompter failed, or the prompt is too long.
    """
    said: list[Contribution] = [*given.pieces]
    asked = None if hooks is None else hooks.start("prompt", place)
    while asked is not None and (more := await asked.next()) is not None:
        said += more
    prompter = turn.program.prompter
    if not said and prompter is None:
        return given.instructions
    layer: Layer = "turn" if given.is_callers else "agent"
    first = Contribution(
        given.instructions, slot="intro", priority=_FIRST, layer=layer, replaces=given.is_callers
    )
    offered = [tool.name for tool in turn.offered]
    try:
        prompt = render_prompt([first, *said], offered, prompter)
        check_text(prompt, field="prompt")
        check_limit("input_text_bytes", len(prompt.encode()), field="prompt")
    except (InvalidInput, LimitExceeded) as error:
        if asked is None or prompter is not None:
            raise PromptFault(f"the prompt cannot be used: {error}") from error
        raise PluginFault(" or ".join(asked.names), "prompt", error, is_ours=True) from error
    except Exception as error:
        raise PromptFault(f"the prompter raised {type(error).__name__}") from error
    return prompt


def _by_plugin(said: Iterable[InjectedMessage], plugin: str) -> Iterator[InjectedMessage]:
    """Return a plugin's messages, which say that they are its."""
    origin = PluginOrigin(plugin=plugin)
    return (msgspec.structs.replace(one, origin=origin) for one in said)


def _refused(reason: str, default: str) -> Outcome:
    return Stopped(reason="refused", detail=reason or default)


async def hooked_delivery(
    hooks: Hooks, inbox: CheckpointDelivery, at: AtCheckpoint, effect_id: int
) -> CheckpointDelivery:
    """Return what enters: what the inbox had, then what each plugin adds.

    Raises:
        TurnOver: a plugin ends the turn.
    """
    asked, found = hooks.start("at_checkpoint", str(effect_id)), inbox
    while (said := await asked.next(at)) is not None:
        plugin = asked.plugin
        if isinstance(said, Stop):
            raise TurnOver(stopped(said, "limit", plugin))
        if said.messages or said.transient or said.causes:
            transient = (*found.transient_messages, *_by_plugin(said.transient, plugin))
            found = CheckpointDelivery(
                messages=(*found.messages, *_by_plugin(said.messages, plugin)),
                transient_messages=transient,
                causes=(*found.causes, *said.causes),
            )
    return found


async def hooked_end(hooks: Hooks, outcome: Outcome) -> TurnFinalized:
    """Ask the plugins what follows the turn; one that fails is noted, and adds nothing."""
    messages: list[Message] = []
    issues: list[str] = []
    compact: Json = None
    asked = hooks.start("after_turn", "end")
    asked.about = "0"
    while (said := await asked.next_or_note(hooks.note, outcome)) is not None:
        messages += _messages(hooks.turn.ids, "end", asked.plugin, said.messages, len(messages))
        issues += said.issues
        if compact is None and said.compact is not False:
            compact = {} if said.compact is True else dict(said.compact)
    patches = hooks.place.take()
    return TurnFinalized(
        messages=tuple(messages), issues=tuple(issues), patches=patches, compact=compact
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
    if not memory.is_announced:
        memory.is_announced = True
        _announce(services, program, "on_session_open", program.name, memory.session_id)


def announce_commit(services: Services, program: Program, record: TurnRecord) -> None:
    """Tell plugins that a turn is in the history."""
    if program.plugins.having("after_commit"):
        ended = CommittedTurn(
            agent=program.name,
            session_id=record.session_id,
            turn_id=record.turn_id,
            outcome=record.outcome,
        )
        _announce(services, program, "after_commit", ended)


def _announce(services: Services, program: Program, hook: str, *given: object) -> None:
    for plugin in program.plugins.having(hook):
        told = getattr(plugin, hook)(*given)
        services.aside.start(_logged(told, name_of(plugin), hook), name=f"windlass-{hook}")


async def _logged(told: Coroutine[Any, Any, None], plugin: str, hook: str) -> None:
    try:
        await told
    except Exception:  # noqa: BLE001 - what a plugin raises here concerns no turn
        _log.exception("the plugin %s failed in %s", plugin, hook)
