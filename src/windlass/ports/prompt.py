"""The system prompt: what instructions and plugins contribute, in slots, rendered the same way every time.

Law 1. Equal contributions give equal bytes, whatever order they come in: providers cache by prefix.
Law 2. A higher layer adds to a slot, or replaces what lower layers put there: agent < session < turn.
Law 3. Instructions alone are the prompt, byte for byte. What is blank is not there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, TypeAlias, get_args

import msgspec

from windlass.errors import InvalidInput
from windlass.guards.text import check_text
from windlass.kernel.value import check_instance, set_field

Slot: TypeAlias = Literal["intro", "execution", "guidance", "project", "context", "environment"]
Layer: TypeAlias = Literal["agent", "session", "turn"]
SLOTS: tuple[Slot, ...] = get_args(Slot)
LAYERS: tuple[Layer, ...] = get_args(Layer)
_TITLES = {
    "execution": "Execution",
    "guidance": "Guidance",
    "project": "Project",
    "context": "Context",
    "environment": "Environment",
}


class Contribution(msgspec.Struct, frozen=True):
    """A piece of the system prompt.

    `gate` names tools: without any of them on offer it is left out. `replaces` takes the place of what lower
    layers put into the slot. In a layer, lower `priority` comes first.
    """

    text: str
    slot: Slot = "guidance"
    title: str = ""
    priority: int = 0
    gate: tuple[str, ...] = ()
    layer: Layer = "agent"
    replaces: bool = False

    def __post_init__(self) -> None:
        """Refuse what would silently not be shown: a slot, layer or gate that does not exist."""
        for name in ("text", "title"):
            check_text(getattr(self, name), field=f"Contribution.{name}")
        for name, found, known in (("slot", self.slot, SLOTS), ("layer", self.layer, LAYERS)):
            if found not in known:
                wanted = f"one of {', '.join(known)}"
                raise InvalidInput.at(f"Contribution.{name}", repr(found)[:40], wanted)
        check_instance(self.priority, int, field="Contribution.priority")
        if isinstance(self.gate, list):
            set_field(self, "gate", tuple(self.gate))
        check_instance(self.gate, tuple, field="Contribution.gate")
        for at, tool in enumerate(self.gate):
            check_instance(tool, str, field=f"Contribution.gate[{at}]")


def render_prompt(contributions: Iterable[Contribution], tools: Collection[str] = ()) -> str:
    """Return the system prompt; `tools` are the names on offer."""
    offered = frozenset(tools)
    kept = {one for one in contributions if one.text.strip() and _is_open(one, offered)}
    blocks = [block for slot in SLOTS if (block := _render_slot(slot, kept))]
    return "\n\n".join(blocks)


def _is_open(one: Contribution, offered: frozenset[str]) -> bool:
    return not one.gate or not offered.isdisjoint(one.gate)


def _render_slot(slot: Slot, kept: Iterable[Contribution]) -> str:
    here = [one for one in kept if one.slot == slot]
    floor = max((LAYERS.index(one.layer) for one in here if one.replaces), default=0)
    here = sorted((one for one in here if LAYERS.index(one.layer) >= floor), key=_order)
    if not here:
        return ""
    pieces = [f"## {_TITLES[slot]}"] if slot in _TITLES else []
    pieces += [_render(one, is_alone=slot == "intro" and len(here) == 1) for one in here]
    return "\n\n".join(pieces)


def _order(one: Contribution) -> tuple[int, int, str, str]:
    return LAYERS.index(one.layer), one.priority, one.title, one.text


def _render(one: Contribution, *, is_alone: bool) -> str:
    if is_alone and not one.title:
        return one.text  # instructions alone stay as they were written
    return f"### {one.title}\n\n{one.text.strip()}" if one.title else one.text.strip()
