"""The system prompt: what agents, callers and plugins contribute, in slots, written the same way every time.

Law 1. Equal contributions give equal bytes, whatever order they come in: providers cache by prefix.
Law 2. A higher layer adds to a slot, or replaces what lower layers put there: agent < session < turn.
Law 3. Instructions alone are the prompt, byte for byte. What is blank is not there; a blank piece that replaces clears
    its slot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, get_args

import msgspec

from windlass.errors import InvalidInput
from windlass.guards.limits import check_limit
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
    layers put into the slot; with blank text it clears the slot. In a layer, lower `priority` comes first.
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


class Prompter(Protocol):
    """Writes the system prompt of an agent, instead of `render_prompt`: a function, or an object that can be called.

    It is given the pieces that are in force, the instructions among them, in the order of slots, layers and priorities.
    Equal pieces have to give equal text: it may be asked for each iteration, and what it wrote is recorded. A turn that
    goes on after a crash does not ask again for what it has.
    """

    def __call__(self, pieces: Sequence[Contribution], /) -> str: ...


def render_prompt(
    contributions: Iterable[Contribution],
    tools: Collection[str] = (),
    prompter: Prompter | None = None,
) -> str:
    """Return the system prompt; `tools` are the names on offer, `prompter` writes it if there is one."""
    return (prompter or _written)(in_force(contributions, tools))


def in_force(
    contributions: Iterable[Contribution], tools: Collection[str] = ()
) -> tuple[Contribution, ...]:
    """Return the pieces that a prompt is made of, in their order: none that is blank, gated off or replaced."""
    offered = frozenset(tools)
    there = {one for one in contributions if _is_open(one, offered)}
    found: list[Contribution] = []
    for slot in SLOTS:
        here = [one for one in there if one.slot == slot]
        floor = max((LAYERS.index(one.layer) for one in here if one.replaces), default=0)
        kept = (one for one in here if LAYERS.index(one.layer) >= floor and one.text.strip())
        found += sorted(kept, key=_order)
    return tuple(found)


def _is_open(one: Contribution, offered: frozenset[str]) -> bool:
    return not one.gate or not offered.isdisjoint(one.gate)


def _written(pieces: Sequence[Contribution]) -> str:
    blocks = (_render_slot(slot, [one for one in pieces if one.slot == slot]) for slot in SLOTS)
    return "\n\n".join(filter(None, blocks))


def _render_slot(slot: Slot, here: Sequence[Contribution]) -> str:
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


# ---------------------------------------------------------------------- pieces that agents and callers give


def read_pieces(given: object, *, field: str, layers: Sequence[Layer]) -> tuple[Contribution, ...]:
    """Return pieces that were given by hand, each once and in their order. One of another layer is of the last of `layers`.

    Raises:
        InvalidInput: something else was given.
        LimitExceeded: there are too many, or they are too long.
    """
    listed = [given] if isinstance(given, Contribution) else given
    if not isinstance(listed, (list, tuple)):
        raise InvalidInput.at(field, type(given).__name__, "a Contribution or a list of them")
    check_limit("parts_per_message", len(listed), field=field)
    pieces: set[Contribution] = set()
    for at, one in enumerate(listed):
        if not isinstance(one, Contribution):
            wanted = 'a Contribution, such as Contribution("Be brief.", slot="guidance")'
            raise InvalidInput.at(f"{field}[{at}]", type(one).__name__, wanted)
        layer = one.layer if one.layer in layers else layers[-1]
        pieces.add(msgspec.structs.replace(one, layer=layer))
    check_limit("input_text_bytes", sum(len(one.text.encode()) for one in pieces), field=field)
    return tuple(sorted(pieces, key=lambda one: (SLOTS.index(one.slot), _order(one), one.gate)))


def plain_pieces(pieces: Iterable[Contribution]) -> list[dict[str, Any]]:
    """Return pieces as they are recorded: what is not the default."""
    names = Contribution.__struct_fields__
    bare = Contribution("")
    return [
        {name: found for name in names if (found := getattr(one, name)) != getattr(bare, name)}
        for one in pieces
    ]


def recorded_pieces(plain: Iterable[Any] | None) -> tuple[Contribution, ...]:
    """Return pieces from their record."""
    return tuple(Contribution(**{"text": "", **one}) for one in plain or ())
