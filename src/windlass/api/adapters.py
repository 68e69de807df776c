"""From names to adapters: a store by its address, a model by its name. Each is imported when it is named.

Law 1. What a runtime made, it closes; what it was given, it leaves open.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from os import PathLike, fspath
from typing import Final, Literal, TypeAlias

from windlass.errors import ConfigError
from windlass.ports import Model, Store

Durability = Literal["power", "process"]
StoreAddress: TypeAlias = "str | PathLike[str] | Store"
"""Where a runtime keeps its rows: a file, an address, or a `Store` that the caller opens and closes."""
_SQLITE: Final = "sqlite:///"
_WANTED: Final = "sqlite:///FILE or memory:, or the path of a file"
# What people write for the store in memory; none of it is meant as the name of a file.
_ALMOST_MEMORY: Final = frozenset({"memory", ":memory:", "memory://", "sqlite:///:memory:"})


def address_of(store: StoreAddress) -> str | Store:
    """Return what names a store as its address; a `Store` is returned as it is."""
    return _SQLITE + fspath(store) if isinstance(store, PathLike) else store


def open_store(wanted: str | Store, durability: Durability) -> Store:
    """Return the store that an address names, not yet opened; a store is returned as it is.

    Raises:
        ConfigError: there is no such kind of store.
    """
    if not isinstance(wanted, str):
        if not callable(getattr(wanted, "submit", None)):
            raise ConfigError.at("store", type(wanted).__name__, f"{_WANTED} or a Store")
        return wanted
    if durability not in ("power", "process"):
        raise ConfigError.at("durability", "another word", "power or process")
    if wanted == "memory:":
        from windlass.stores.memory import MemoryStore  # noqa: PLC0415 - not needed beside a file

        return MemoryStore()
    from windlass.stores.sqlite import SqliteStore  # noqa: PLC0415 - imports SQLite

    return SqliteStore(_file_in(wanted), durability=durability)


def _file_in(address: str) -> str:
    """Return the file that an address names: `sqlite:///FILE`, or the file itself.

    Raises:
        ConfigError: it names none.
    """
    if address in _ALMOST_MEMORY:
        raise ConfigError.at("store", repr(address), "memory: for a store in memory")
    file = address.removeprefix(_SQLITE)
    if not file or "\0" in file:
        raise ConfigError.at("store", "an address without a file name", _WANTED)
    scheme, colon, rest = address.partition(":")
    if file != address or not colon or "/" in scheme:
        return file
    if scheme == "sqlite":
        meant = _SQLITE + rest.lstrip("/")[:80]
        short = {0: "three slashes", 1: "two slashes", 2: "one slash"}
        n_slashes = len(rest) - len(rest.lstrip("/"))
        raise ConfigError.at("store", f"an address that is {short[n_slashes]} short", meant)
    raise ConfigError.at("store", f"an address of the kind {scheme[:20]!r}", _WANTED)


def find_model(name: str) -> Model | None:
    """Make the model of a name that windlass itself knows; None if it knows none.

    Raises:
        ConfigError: the provider is unknown, or its SDK or key is missing.
    """
    if name == "demo":
        from windlass.models.demo import DemoModel  # noqa: PLC0415 - a toy that few programs use

        return DemoModel()
    if ":" in name:
        from windlass.models.names import model_named  # noqa: PLC0415 - a scripted model needs no provider

        return model_named(name)
    return None


class KnownModels:
    """The models of one runtime: those it was given, and those it made from a name when a turn first used it."""

    def __init__(self, given: Iterable[Model] = ()) -> None:
        self._known = {model.name: model for model in given}
        self._made: list[Model] = []

    def add(self, model: Model) -> None:
        """Add a model that was given; the first one with a name keeps it."""
        self._known.setdefault(model.name, model)

    def find(self, name: str) -> Model | None:
        """Return the model of a name, the same one each time; None if there is none.

        Raises:
            ConfigError: the provider is unknown, or its SDK or key is missing.
        """
        known = self._known.get(name)
        if known is None and (known := find_model(name)) is not None:
            self._known[name] = known
            self._made.append(known)
        return known

    def of(self, wanted: str | Model) -> Model:
        """Return the model that an agent names, or has.

        Raises:
            ConfigError: there is no model of this name.
        """
        if not isinstance(wanted, str):
            return wanted
        found = self.find(wanted)
        if found is None:
            from windlass.models.names import PROVIDERS  # noqa: PLC0415 - only a mistake needs it

            raise ConfigError(
                f"model: no model is called {wanted[:80]!r}; give PROVIDER:MODEL such as "
                "anthropic:claude-sonnet-4-5, a Model object, or register one with Runtime(models=...). "
                f"Providers: {', '.join(PROVIDERS)}. Built in: demo",
                field="model",
                wanted="a Model, or the name of one",
            )
        return found

    async def aclose(self) -> None:
        """Close the connections of the models it made, each of them, even if closing one fails.

        The models stay known: the next call opens new connections.
        """
        async with AsyncExitStack() as stack:
            for model in self._made:
                if (close := getattr(model, "aclose", None)) is not None:
                    stack.push_async_callback(close)
