"""A schema in words, for models that cannot be held to one."""

from __future__ import annotations

from windlass.kernel import canonical
from windlass.kernel.value import Json


def schema_words(schema: Json) -> str:
    """Return what a model is told that cannot be held to a schema."""
    return (
        "Answer with one JSON value and nothing else, no prose and no code fence. "
        f"It has to fit this JSON schema:\n{canonical.encode(schema).decode()}"
    )
