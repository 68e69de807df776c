"""The canonical encoding a second time, from its description alone: json and hashlib.

It shares nothing with the kernel's encoder, so what both agree on was not agreed by accident.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

from windlass.kernel import Json

# Which fields of which values digest as a chain, by tag.
_CHAINS = {
    "model_request": ("messages",),
    "progress": ("messages",),
    "done": ("messages",),
    "turn_snapshot": ("messages", "records"),
}


def encoded(document: object) -> bytes:
    """Return a JSON document as canonical bytes."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def digested(document: object) -> str:
    """Return the digest of a JSON document."""
    return sha256(encoded(_with_chains(document))).hexdigest()


def chained(documents: Sequence[object]) -> str:
    """Return the digest of a sequence: cₙ = H(cₙ₋₁ ‖ digest(mₙ)), c₀ = H of nothing."""
    link = sha256(b"").hexdigest()
    for document in documents:
        link = sha256((link + digested(document)).encode()).hexdigest()
    return link


def _with_chains(document: Json) -> Json:
    if isinstance(document, list):
        return [_with_chains(item) for item in document]
    if not isinstance(document, dict):
        return document
    chains = _CHAINS.get(str(document.get("type")), ())
    return {
        key: f"chain:{chained(item)}" if key in chains else _with_chains(item)
        for key, item in document.items()
    }
