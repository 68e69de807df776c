"""The key under which OpenAI's cache finds the requests of one session again."""

from __future__ import annotations

from hashlib import sha256


def cache_key(session_id: str) -> str:
    """Return what groups the requests of a session for the provider's cache, without telling its id."""
    return sha256(session_id.encode()).hexdigest()[:32]
