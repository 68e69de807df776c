"""JSON for programs that read the output: one value, or one value per line."""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

import msgspec

from windlass.cli.keys import clean
from windlass.kernel import canonical


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a value of windlass as plain JSON."""
    return msgspec.json.decode(canonical.encode(value))


def write_json(value: object, stream: TextIO | None = None) -> None:
    """Write one value on one line, at once; whatever the terminal can show, nothing of it is lost."""
    out = stream or sys.stdout
    text = clean(msgspec.json.encode(value).decode())
    if (out.encoding or "utf-8").lower().replace("-", "") != "utf8":
        text = json.dumps(msgspec.json.decode(text))  # noqa: TID251 - the same, in ASCII
    out.write(text + "\n")
    out.flush()
