"""The tokens of one reply, as its provider counted them, and the model that it served."""

from __future__ import annotations

from typing import Any

from windlass.kernel.value import Json
from windlass.models.message_parts import whole_text
from windlass.models.provider_errors import malformed, wrong_kind
from windlass.models.route import Route

_MAX_COUNT = 2**63 - 1


class UsageReport:
    """What was said so far. `said` is None for a provider that said nothing, which is not zero."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self.said: dict[str, Any] | None = None
        self._served = ""

    def take(self, said: object, *, served: object = None) -> None:
        """Keep what an event says of usage, where a later count replaces an earlier one, and of the model.

        Raises:
            Malformed: the usage is not an object.
        """
        if isinstance(served, str) and served:
            self._served = served
        if isinstance(said, dict):
            self.said = {**(self.said or {}), **said}
        elif said is not None:
            raise wrong_kind(self._route.provider, "usage", said, "an object")

    @property
    def other_model(self) -> str | None:
        """The model that was served, where that is another than was asked for."""
        is_other = self._served and self._served != self._route.model.removeprefix("models/")
        return whole_text(self._served) if is_other else None

    def provider_usage(self) -> Json:
        """Return what the provider said, and the model that it served where that is another."""
        if self.other_model is None:
            return self.said or None
        return {**(self.said or {}), "served_model": self.other_model}

    def count(self, name: str, *, of: str | None = None) -> int:
        """Return a number of tokens, from the details called `of` if they are named; 0 if it was not told.

        Raises:
            Malformed: it is not such a number.
        """
        said = self.said or {}
        return count_in(said if of is None else said.get(of), name, self._route.provider)


def count_in(counts: object, name: str, provider: str) -> int:
    """Return a number of tokens that a provider counted; 0 if it did not.

    Raises:
        Malformed: it is not such a number.
    """
    found = counts.get(name) if isinstance(counts, dict) else None
    if found is None:
        return 0
    if type(found) is not int or not 0 <= found <= _MAX_COUNT:
        raise malformed(provider, f"{name}: found something else, wanted 0 to 2^63 - 1 tokens")
    return found
