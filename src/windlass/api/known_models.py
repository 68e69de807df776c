"""The models of one runtime, by name.

Law 1. What a runtime made, it closes; what it was given, it leaves as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack

from windlass.api.adapters import find_model
from windlass.errors import ConfigError
from windlass.ports.model import Model


class KnownModels:
    """Models that were given, and those that were made of a name when a turn first asked for them."""

    def __init__(self, given: Iterable[Model] = ()) -> None:
        self._known = {model.name: model for model in given}
        self._made: list[Model] = []

    def add(self, model: Model) -> None:
        """Know a model that was given; who had its name first keeps it."""
        self._known.setdefault(model.name, model)

    def find(self, name: str) -> Model | None:
        """Return the model of a name, the same one each time; None if nobody has it.

        Raises:
            ConfigError: it names a provider that there is not, or whose SDK or key is missing.
        """
        known = self._known.get(name)
        if known is None and (known := find_model(name)) is not None:
            self._known[name] = known
            self._made.append(known)
        return known

    def of(self, wanted: str | Model) -> Model:
        """Return the model that an agent names, or has.

        Raises:
            ConfigError: nobody knows it.
        """
        if not isinstance(wanted, str):
            return wanted
        found = self.find(wanted)
        if found is None:
            raise ConfigError(
                f"model: nobody here is called {wanted[:80]!r}; give PROVIDER:MODEL such as "
                "anthropic:claude-sonnet-4-5, a Model object, or register one with Runtime(models=...). "
                "Built in: demo",
                field="model",
                wanted="a Model, or the name of one",
            )
        return found

    async def aclose(self) -> None:
        """Close the connections of those that were made, each of them, also where one cannot be closed.

        They stay known: the next call opens other connections.
        """
        async with AsyncExitStack() as stack:
            for model in self._made:
                if (close := getattr(model, "aclose", None)) is not None:
                    stack.push_async_callback(close)
