"""Names to adapters: a store by its address, a model by its name. Imported only when they are named."""

from __future__ import annotations

from typing import Literal

from windlass.errors import ConfigError
from windlass.ports import Store
from windlass.ports.model import Model

Durability = Literal["power", "process"]
_SQLITE = "sqlite:///"
_WANTED = "sqlite:///FILE or memory:"


def open_store(wanted: str | Store, durability: Durability) -> Store:
    """Return the store that an address names; a store is returned as it is.

    Raises:
        ConfigError: no such kind of store.
    """
    if not isinstance(wanted, str):
        if not callable(getattr(wanted, "submit", None)):
            found = type(wanted).__name__
            raise ConfigError(
                f"store: found {found}, wanted {_WANTED} or a Store", field="store", found=found
            )
        return wanted
    if durability not in ("power", "process"):
        raise ConfigError(
            "durability: found another word, wanted power or process", field="durability"
        )
    if wanted == "memory:":
        from windlass.stores.memory import MemoryStore  # noqa: PLC0415 - who keeps a file needs no other

        return MemoryStore()
    if wanted.startswith(_SQLITE) and wanted.removeprefix(_SQLITE) not in ("", ":memory:"):
        from windlass.stores.sqlite import SqliteStore  # noqa: PLC0415 - brings SQLite along

        return SqliteStore(wanted.removeprefix(_SQLITE), durability=durability)
    scheme = wanted.partition(":")[0][:20]
    raise ConfigError(
        f"store: found an address of the kind {scheme!r}, wanted {_WANTED}",
        field="store",
        found=scheme,
        wanted=_WANTED,
    )


def find_model(name: str) -> Model | None:
    """Make the model of a name that windlass itself knows; None if it knows none.

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
