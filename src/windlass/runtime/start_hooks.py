"""How plugins take part in a turn's beginning: its input, what comes before it, and its prompt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.errors import LimitExceeded
from windlass.guards.limits import check_limit
from windlass.kernel.messages import Message, Part, PluginOrigin
from windlass.kernel.outcomes import Outcome, Stopped
from windlass.kernel.responses import InjectedMessage
from windlass.kernel.value import EMPTY_DICT
from windlass.ports.directives import Abort, Refuse
from windlass.ports.prompt import Contribution, render_prompt
from windlass.runtime.hooks import Hooks
from windlass.runtime.turn_signals import PluginFault

_FIRST = -100


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What plugins made of a turn's beginning; `input` is None where they left it alone."""

    input: tuple[Part, ...] | None = None
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    patches: dict[str, Any] = EMPTY_DICT
    ends: Outcome | None = None


NOTHING_SAID = Opening()


async def open_turn(hooks: Hooks, given: tuple[Part, ...]) -> Opening:
    """Ask the plugins how a turn is to begin; what they raise ends it."""
    try:
        parts = await hooked_input(hooks, given, "0")
    except PluginFault as fault:
        # Whoever was to look at it has not: nothing of it is kept.
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
    """Return an opening with the prompt that plugins make of the instructions, and all that they changed."""
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
    """Return what is taken of something that a person said."""
    turns, at = hooks.having("on_input"), 0
    while at < len(turns):
        at, said = await hooks.ask_from(turns, at, "on_input", place, parts)
        if isinstance(said, Refuse):
            return said
        parts = parts if said is None else said
        at += 1
    return parts


async def _before_turn(hooks: Hooks) -> tuple[Message, ...] | Abort:
    messages: list[Message] = []
    turns, at = hooks.having("before_turn"), 0
    while at < len(turns):
        at, said = await hooks.ask_from(turns, at, "before_turn", "0")
        if said is None:
            break
        if isinstance(said, Abort):
            return said
        name = turns[at].name
        at += 1
        for entering in by_plugin(said, name):
            purpose = f"{name}.{len(messages)}"
            messages.append(
                Message(
                    id=hooks.hand.ids.message("in", purpose),
                    role=entering.role,  # type: ignore[arg-type]  # checked
                    parts=entering.parts,
                    origin=entering.origin,
                )
            )
    return tuple(messages)


async def hooked_prompt(hooks: Hooks, place: str, instructions: str, *, is_override: bool) -> str:
    """Return the system prompt of the iteration that begins."""
    turns, at = hooks.having("prompt"), 0
    said: list[Contribution] = []
    while at < len(turns):
        at, more = await hooks.ask_from(turns, at, "prompt", place)
        said += more or ()
        at += 1
    if not said:
        return instructions
    layer, replaces = ("turn", True) if is_override else ("agent", False)
    pieces = [
        Contribution(instructions, slot="intro", priority=_FIRST, layer=layer, replaces=replaces)  # type: ignore[arg-type]  # a layer
    ]
    prompt = render_prompt([*pieces, *said], [tool.name for tool in hooks.hand.offered])
    try:
        check_limit("input_text_bytes", len(prompt.encode()), field="prompt")
    except LimitExceeded as error:
        names = " or ".join(turn.name for turn in turns)
        raise PluginFault(names, "prompt", error, is_ours=True) from error
    return prompt


def by_plugin(said: Iterable[InjectedMessage], plugin: str) -> tuple[InjectedMessage, ...]:
    """Return a plugin's messages, which say that they are its."""
    origin = PluginOrigin(plugin=plugin)
    return tuple(msgspec.structs.replace(one, origin=origin) for one in said)


def _refused(reason: str, default: str) -> Outcome:
    return Stopped(reason="refused", detail=reason or default)
