"""Names to adapters: a store by its address, a model by its name. Imported only when they are named."""

from __future__ import annotations

from typing import Literal

from windlass.errors import ConfigError
from windlass.ports import Store
from windlass.ports.model import Model

Durability = Literal["power", "process"]
_SQLITE = "sqlite:///"


def open_store(wanted: str | Store, durability: Durability) -> Store:
    """Return the store that an address names; a store is returned as it is.

    Raises:
        ConfigError: no such kind of store.
    """
    if not isinstance(wanted, str):
        return wanted
    if durability not in ("power", "process"):
        raise ConfigError(
            "durability: found another word, wanted power or process", field="durability"
        )
    if wanted == "memory:":
        from windlass.stores.memory import MemoryStore  # noqa: PLC0415 - who keeps a file needs no other

        return MemoryStore()
    if wanted.startswith(_SQLITE) and len(wanted) > len(_SQLITE):
        from windlass.stores.sqlite import SqliteStore  # noqa: PLC0415 - brings SQLite along

        return SqliteStore(wanted.removeprefix(_SQLITE), durability=durability)
    scheme = wanted.partition(":")[0][:20]
    raise ConfigError(
        f"store: found an address of the kind {scheme!r}, wanted sqlite:///FILE or memory:",
        field="store",
        found=scheme,
        wanted="sqlite:///FILE or memory:",
    )


def find_model(name: str) -> Model | None:
    """Return the model of a name that windlass itself knows.

    Raises:
        ConfigError: it names a provider that there is not, or whose SDK or key is missing.
    """
    if name == "demo":
        from windlass.models.demo import DemoModel  # noqa: PLC0415 - a toy; few ask for it

        return DemoModel()
    if ":" in name:
        from windlass.models.names import model_named  # noqa: PLC0415 - who scripts a model needs no provider

        return model_named(name)
    return None


def model_is_known(name: str, registered: dict[str, Model]) -> bool:
    """Whether a turn may ask for the model of this name."""
    return name in registered or find_model(name) is not None


def model_of(wanted: str | Model, registered: dict[str, Model]) -> Model:
    """Return the model that an agent names, or has.

    Raises:
        ConfigError: nobody knows it.
    """
    if not isinstance(wanted, str):
        return wanted
    found = registered.get(wanted) or find_model(wanted)
    if found is None:
        raise ConfigError(
            f"model: nobody here is called {wanted[:80]!r}; give PROVIDER:MODEL such as "
            "anthropic:claude-sonnet-4-5, a Model object, or register one with Runtime(models=...). "
            "Built in: demo",
            field="model",
            wanted="a Model, or the name of one",
        )
    return found
