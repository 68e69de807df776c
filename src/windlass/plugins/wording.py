"""Words to a model: templates that are filled, texts that are cut to size."""

from __future__ import annotations

import re
from collections.abc import Iterable

from windlass.kernel.messages import ResultPart, Text

_PLACE = re.compile(r"\{([a-z_]+)\}")


def filled(template: str, **values: object) -> str:
    """Return a template with its known places filled, in one pass.

    Not `str.format`: other braces, as of JSON, stay what they are, and nothing in a value is taken for a place.
    """
    return _PLACE.sub(
        lambda found: str(values[found[1]]) if found[1] in values else found[0], template
    )


def clipped(text: str, chars: int) -> str:
    """Return no more than so many characters of a text; the last says if there was more."""
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def words_of(parts: Iterable[ResultPart]) -> str:
    """Return the words among a result's parts."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))
