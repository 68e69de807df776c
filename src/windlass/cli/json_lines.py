"""JSON for programs that read the output: one value, or one value per line."""

from __future__ import annotations

import sys
from typing import Any, TextIO

import msgspec

from windlass.kernel import canonical


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a value of windlass as plain JSON."""
    return msgspec.json.decode(canonical.encode(value))


def write_json(value: object, stream: TextIO | None = None) -> None:
    """Write one value on one line, at once."""
    out = stream or sys.stdout
    out.write(msgspec.json.encode(value).decode() + "\n")
    out.flush()
