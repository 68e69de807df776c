"""Words to a model: nudges that keep a turn going, templates that are filled, texts that are cut to size."""

from __future__ import annotations

import re
from collections.abc import Iterable

from windlass.kernel.messages import ResultPart, Text
from windlass.ports import Delivery, PluginTurn

_PLACE = re.compile(r"\{([a-z_]+)\}")


def filled(template: str, **values: object) -> str:
    """Return a template with its known places filled, in one pass.

    Not `str.format`: other braces, as of JSON, stay what they are, and nothing in a value is taken for a place.
    """
    return _PLACE.sub(lambda found: str(values.get(found[1], found[0])), template)


def clipped(text: str, chars: int) -> str:
    """Return no more than so many characters of a text; the last says if there was more."""
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def words_of(parts: Iterable[ResultPart]) -> str:
    """Return the words among a result's parts."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def nudge(text: str) -> Delivery:
    """Return words to the model, seen in this turn and never stored."""
    return Delivery(transient=[text])


def has_room(turn: PluginTurn) -> bool:
    """Whether a turn may go on after this reply.

    After the last iteration there is one more, of grace. Input after that one ends the turn at its limit, and a
    guard must not turn an answer into that.
    """
    return turn.max_iterations is None or turn.iteration < turn.max_iterations
