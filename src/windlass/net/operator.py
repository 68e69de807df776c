"""The operator's door: `WINDLASS_EGRESS` narrows what every client of the process may call.

Law 1. It only narrows: what the rules of a client refuse stays refused.
Law 2. A value that cannot be understood refuses everything, and says so.
Law 3. It is read for every request: a client that was made before obeys it, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from windlass.errors import EgressDenied
from windlass.net.target import host_of

VARIABLE: Final = "WINDLASS_EGRESS"
_WANTED: Final = '"closed", or hosts such as docs.python.org,*.example.org'


class _Door(NamedTuple):
    """What the variable allows; `wrong` says what cannot be understood in it."""

    hosts: tuple[str, ...] = ()
    wrong: str = ""


def environment() -> Mapping[str, str]:
    """Return the environment of this process: what goes out to the net reads it here and nowhere else."""
    return os.environ  # noqa: TID251 - the one door of net, for the operator's rule and for keys of search engines


def check_operator(host: str) -> None:
    """Refuse a host that the operator of this process does not allow.

    Raises:
        EgressDenied: `rule` is `closed`, or `operator`.
    """
    value = environment().get(VARIABLE)
    if value is None:
        return
    if value.strip() == "closed":
        told = f"{host}: refused by the rule closed: {VARIABLE} is closed, so nothing may be called"
        raise EgressDenied(told, rule="closed", host=host)
    door = _door(value)
    if door.wrong:
        told = f"{host}: refused by the rule operator: {VARIABLE} {door.wrong}, wanted {_WANTED}"
        raise EgressDenied(told, rule="operator", host=host)
    if not is_listed(host, door.hosts):
        told = f"the operator does not allow this host; {VARIABLE} would have to name it"
        raise EgressDenied(
            f"{host}: refused by the rule operator: {told}", rule="operator", host=host
        )


def pattern_of(text: object) -> str | None:
    """Return a host, or `*.` and a host, in its one spelling; None if it is neither."""
    if not isinstance(text, str):
        return None
    star, name = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    try:
        host = host_of(name)
    except EgressDenied:
        return None
    is_address = ":" in host or host.rpartition(".")[2].isdigit()
    return None if star and is_address else star + host


def is_listed(host: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns names this host. `*.example.org` names what is below it, not `example.org`."""
    return any(
        host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))
        for pattern in patterns
    )


@lru_cache(maxsize=8)
def _door(value: str) -> _Door:
    if not value.strip():
        return _Door(wrong="is empty")
    patterns = [pattern_of(entry.strip()) for entry in value.split(",")]
    for place, pattern in enumerate(patterns, 1):
        if pattern is None:
            return _Door(wrong=f"has an entry {place} that is not a host")
    return _Door(hosts=tuple(filter(None, patterns)))
