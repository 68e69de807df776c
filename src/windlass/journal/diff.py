"""Where two requests part: a bounded list of places, without their payloads.

The list goes into errors and onto screens, so it shows what a thing is called and how big it is. Messages,
arguments and results appear as sizes and digests only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from windlass.kernel import Json, Value, canonical

MAX_DIFFERENCES = 32
# Places that name things rather than hold what was said. Everything else is shown by its size.
_SHOWN = frozenset(
    {
        *(f"$.{field}" for field in (
            "call_id", "checkpoint", "duration_ms", "language", "name", "operation", "process_id", "reply", "subject",
            "type", "usage_source", "wait_key",
        )),
        *(f"$.request.{field}" for field in (
            "base", "generation.seed", "generation.max_output_tokens", "message_count", "messages", "model",
            "session_id", "tool_choice", "tools", "variant",
        )),
    }
)  # fmt: skip
_MAX_SHOWN = 80


class Difference(Value, kw_only=True):
    """One place where the recorded request and the new one differ."""

    path: str
    change: Literal["changed", "added", "removed"]
    recorded: str | None = None
    found: str | None = None

    def __str__(self) -> str:
        if self.recorded is None and self.found is None:
            return f"{self.path}: {self.change}"
        if self.change == "changed":
            return f"{self.path}: recorded {self.recorded}, now {self.found}"
        return f"{self.path}: {self.change} ({self.recorded or self.found})"


def diff(recorded: object, found: object) -> tuple[Difference, ...]:
    """Return where two values differ, at most `MAX_DIFFERENCES` places, in reading order."""
    places = _walk(_plain(recorded), _plain(found), "$")
    return tuple(place for place, _ in zip(places, range(MAX_DIFFERENCES), strict=False))


def _plain(value: object) -> Json:
    """Return a value as its own canonical bytes read as plain JSON."""
    written = bytes(value) if isinstance(value, msgspec.Raw) else canonical.encode(value)
    return msgspec.json.decode(written)


def _walk(recorded: Json, found: Json, path: str) -> Iterator[Difference]:
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key in sorted(recorded.keys() | found.keys()):
            yield from _step(recorded, found, key, f"{path}.{key[:40]}")
    elif isinstance(recorded, list) and isinstance(found, list):
        before, after = dict(enumerate(recorded)), dict(enumerate(found))
        for at in range(max(len(recorded), len(found))):
            yield from _step(before, after, at, f"{path}[{at}]")
    elif type(recorded) is not type(found) or repr(recorded) != repr(found):
        yield Difference(
            path=path,
            change="changed",
            recorded=_shape(recorded, path),
            found=_shape(found, path),
        )


def _step(recorded: Any, found: Any, key: Any, path: str) -> Iterator[Difference]:  # noqa: ANN401 - two mappings by one key
    if key not in recorded:
        yield Difference(path=path, change="added", found=_shape(found[key], path))
    elif key not in found:
        yield Difference(path=path, change="removed", recorded=_shape(recorded[key], path))
    else:
        yield from _walk(recorded[key], found[key], path)


def _shape(value: Json, path: str) -> str:
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if path in _SHOWN and len(str(value)) <= _MAX_SHOWN:
        return str(value)
    if isinstance(value, str):
        return f"text of {len(value):,} ({canonical.digest(value)[:8]})"
    return f"a number ({canonical.digest(value)[:8]})"
