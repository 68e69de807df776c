"""What a command is set up with: flags, then the environment, then pyproject.toml, then defaults."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec

from windlass.cli.keys import environment
from windlass.cli.nearest import hint, nearest
from windlass.errors import ConfigError

Durability = Literal["power", "process"]

KEYS: Final = ("store", "model", "agent", "durability", "by")
PREFIX: Final = "WINDLASS_"
_ALSO: Final = (f"{PREFIX}DEBUG",)
_SQLITE: Final = "sqlite:///"
DEFAULT_STORE: Final = f"{_SQLITE}windlass.db"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one run, and where each that is no default came from."""

    store: str = DEFAULT_STORE
    model: str | None = None
    agent: str | None = None
    durability: Durability = "power"
    by: str | None = None
    folders: tuple[str, ...] = ()
    sources: Mapping[str, str] = {}


def read_settings(**flags: str | None) -> Settings:
    """Return the settings for flags that were given, in this folder and this environment.

    Raises:
        ConfigError: a key that does not exist, or a value that cannot be; it says where it stands.
    """
    try:
        folder = Path.cwd()
    except OSError as error:
        raise ConfigError(f"the folder that you are in: {error.strerror}", field="folder") from None
    return settle(flags, environment(), folder)


def settle(flags: Mapping[str, str | None], environ: Mapping[str, str], folder: Path) -> Settings:
    """Return what holds: the first that says something about a key."""
    found: dict[str, str] = {}
    sources: dict[str, str] = {}
    file = _project_file(folder)
    layers: tuple[tuple[str, Mapping[str, str | None]], ...] = (
        ("--{}", flags),
        ("environment", _from_environment(environ)),
        ("pyproject.toml", _from_file(file)),
    )
    for where, layer in layers:
        for key, value in layer.items():
            if value is not None and key not in found:
                found[key], sources[key] = value, where.format(key)
                if not value.strip():
                    raise ConfigError(f"{sources[key]}: {key}: there is nothing in it", field=key)
    if found.get("durability", "power") not in ("power", "process"):
        raise ConfigError(
            f"{sources['durability']}: durability: found {found['durability'][:40]!r}, "
            "wanted power or process",
            field="durability",
        )
    if "store" in found:
        found["store"] = store_address(found["store"])
    folders = dict.fromkeys(str(each) for each in (folder, file and file.parent) if each)
    return Settings(**cast("dict[str, Any]", found), folders=tuple(folders), sources=sources)


def store_address(given: str) -> str:
    """Return the address of a store; a bare file name stands for SQLite."""
    return given if ":" in given.partition("/")[0] else f"{_SQLITE}{given}"


def store_file(address: str) -> Path | None:
    """Return the file of a store, if it has one."""
    return Path(address.removeprefix(_SQLITE)) if address.startswith(_SQLITE) else None


def existing_store(settings: Settings) -> str:
    """Return the address of a store that is there: who only reads makes no new file.

    Raises:
        ConfigError: there is none.
    """
    file = store_file(settings.store)
    if file is not None and not is_there(file):
        raise ConfigError(
            f"store: there is no file {file}; name one with --store or WINDLASS_STORE, "
            "or begin one with windlass chat",
            field="store",
        )
    return settings.store


def is_there(file: Path) -> bool:
    """Whether there is a store, or something that keeps us from seeing: whoever opens it says what."""
    try:
        return file.exists()
    except OSError:
        return True


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    known = {f"{PREFIX}{key.upper()}": key for key in KEYS}
    for name in sorted(environ):
        # Others may use the prefix, too; what looks like one of ours and is none is a typo.
        if name.startswith(PREFIX) and name not in known and name not in _ALSO:
            meant = nearest(name.removeprefix(PREFIX).lower(), (*KEYS, "debug"))
            if meant is not None:
                raise ConfigError(
                    f"environment: {name} is not known; did you mean {PREFIX}{meant.upper()}?",
                    field=name,
                )
    return {key: environ[name] for name, key in known.items() if name in environ}


def _project_file(folder: Path) -> Path | None:
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            return file
    return None


def _from_file(file: Path | None) -> dict[str, str]:
    if file is None:
        return {}
    try:
        whole = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}", field="pyproject.toml") from None
    table: Any = whole
    for name in ("tool", "windlass"):
        table = table.get(name, {})
        if not isinstance(table, dict):
            place = "tool" if name == "tool" else "tool.windlass"
            raise ConfigError(f"{file}: {place}: wanted a table", field=place)
    for key, value in table.items():
        if key not in KEYS:
            raise ConfigError(
                f"{file}: tool.windlass.{key} is not known{hint(key, KEYS)} "
                f"(known: {', '.join(KEYS)})",
                field=f"tool.windlass.{key}",
            )
        if not isinstance(value, str):
            raise ConfigError(
                f"{file}: tool.windlass.{key}: found {type(value).__name__}, wanted text",
                field=f"tool.windlass.{key}",
            )
    found = dict(table)
    if found.get("store"):
        found["store"] = _beside(file, found["store"])
    return found


def _beside(file: Path, given: str) -> str:
    """Return an address whose file is looked for beside the settings that name it."""
    address = store_address(given)
    path = store_file(address)
    return address if path is None or path.is_absolute() else f"{_SQLITE}{file.parent / path}"
