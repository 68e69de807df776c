"""Patches as tests read and apply them."""

from __future__ import annotations

from windlass.errors import ToolError
from windlass.toolkit.files.applying import apply
from windlass.toolkit.files.patch import FilePatch, parse

HEAD = "--- a/f\n+++ b/f\n"


def only(patch: str) -> FilePatch:
    (file,) = parse(patch)
    return file


def applied(text: str, patch: str) -> str:
    return apply(text, only(patch))


def refusal_of(text: str, patch: str) -> str | None:
    """Return why a patch is refused; None if it is applied."""
    try:
        for file in parse(patch):
            apply(text, file)
    except ToolError as error:
        return str(error)
    return None
