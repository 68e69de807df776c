"""The settings of a command: flags, then the environment, then pyproject.toml, then defaults."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec

from windlass.cli.keys import environment
from windlass.errors import ConfigError

Durability = Literal["power", "process"]

KEYS: Final = ("store", "model", "agent", "tools", "durability", "by")
PREFIX: Final = "WINDLASS_"
_ALSO: Final = (f"{PREFIX}DEBUG", f"{PREFIX}EGRESS")
_SQLITE: Final = "sqlite:///"
DEFAULT_STORE: Final = f"{_SQLITE}windlass.db"
ASSISTANT: Final = "assistant"
CODER: Final = "coder"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one run; `sources` says where each one that is not a default came from."""

    store: str = DEFAULT_STORE
    model: str | None = None
    agent: str | None = None
    tools: str | None = None
    durability: Durability = "power"
    by: str | None = None
    folders: tuple[str, ...] = ()
    sources: Mapping[str, str] = {}


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that the user probably meant."""
    import difflib  # noqa: PLC0415 - only a mistake needs it

    found = difflib.get_close_matches(word, list(known), n=1)
    return found[0] if found else None


def hint(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?`, or nothing."""
    meant = nearest(word, known)
    return "" if meant is None else f"; did you mean {meant}?"


def read_settings(**flags: str | None) -> Settings:
    """Return the settings for these flags, in this folder and this environment.

    Raises:
        ConfigError: an unknown key or a value that is not allowed; the message says where it is.
    """
    try:
        folder = Path.cwd()
    except OSError as error:
        raise ConfigError(f"the current folder: {error.strerror}", field="folder") from None
    return settle(flags, environment(), folder)


def settle(flags: Mapping[str, str | None], environ: Mapping[str, str], folder: Path) -> Settings:
    """Return the settings: for each key, the first layer that has it decides."""
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
                    wanted = ", wanted names such as default,shell" if key == "tools" else ""
                    raise ConfigError(f"{sources[key]}: {key} is empty{wanted}", field=key)
    durability = found.get("durability", "power")
    if durability not in ("power", "process"):
        found_here = f"{sources['durability']}: durability: found {durability[:40]!r}"
        raise ConfigError(f"{found_here}, wanted power or process", field="durability")
    if "store" in found:
        found["store"] = store_address(found["store"])
    folders = dict.fromkeys(str(each) for each in (folder, file and file.parent) if each)
    return Settings(**cast("dict[str, Any]", found), folders=tuple(folders), sources=sources)


def next_command(settings: Settings, agent: str, session_id: str) -> str:
    """Return the command whose process continues a turn of this agent, and what else it may need."""
    store = flags_again(settings, "store")
    own = {CODER: "windlass chat --code", ASSISTANT: "windlass chat"}
    if agent not in own:
        return f"windlass work -m MODULE:NAME{store}"
    command = f"{own[agent]}{store} --session {shlex.quote(session_id)}"
    return f"{command}; with --tools, if the turn began with it"


def flags_again(settings: Settings, *keys: str) -> str:
    """Return the flags among these settings, as they are typed in a shell, each behind a blank."""
    names = {"agent": "-m"}
    return "".join(
        f" {names.get(key, f'--{key}')} {shlex.quote(getattr(settings, key))}"
        for key in keys
        if settings.sources.get(key, "").startswith("--")
    )


def store_address(given: str) -> str:
    """Return the address of a store; a bare file name stands for SQLite."""
    return given if ":" in given.partition("/")[0] else f"{_SQLITE}{given}"


def checked_store(settings: Settings) -> str:
    """Return the address of the store, if it has all its slashes; which kinds there are, `Runtime` knows.

    Raises:
        ConfigError: an address of SQLite with too few slashes.
    """
    given = settings.store
    if not given.startswith("sqlite:") or given.startswith(_SQLITE):
        return given
    file = given.removeprefix("sqlite:").removeprefix("//")
    short = "one slash short" if given.startswith("sqlite://") else "short of slashes"
    meant = f"{_SQLITE}{file}"
    told = f"found {given[:80]!r}, which is {short}, wanted {meant[:80]!r} or {file[:80]!r}"
    raise ConfigError(f"store: {told}", field="store", wanted=meant[:80])


def store_file(address: str) -> Path | None:
    """Return the file of a store, if it has one."""
    return Path(address.removeprefix(_SQLITE)) if address.startswith(_SQLITE) else None


def existing_store(settings: Settings) -> str:
    """Return the address of a store whose file exists: a command that only reads creates none.

    Raises:
        ConfigError: the file does not exist, or the address is short of slashes.
    """
    file = store_file(checked_store(settings))
    if file is not None and not _exists(file):
        told = f"store: {file} does not exist; name another file with --store or WINDLASS_STORE"
        raise ConfigError(f"{told}, or create it with windlass chat", field="store")
    return settings.store


def has_file(settings: Settings) -> bool:
    """Whether the store is a file that exists."""
    file = store_file(settings.store)
    return file is not None and _exists(file)


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:
        return True  # opening it will say what is wrong


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    known = {f"{PREFIX}{key.upper()}": key for key in KEYS}
    for name in sorted(environ):
        # Other programs may use the prefix too; only a name close to one of ours is a typo.
        if name.startswith(PREFIX) and name not in known and name not in _ALSO:
            meant = nearest(name.removeprefix(PREFIX).lower(), (*KEYS, "debug", "egress"))
            if meant is not None:
                wanted = f"{PREFIX}{meant.upper()}"
                told = f"environment: {name} is not known; did you mean {wanted}?"
                raise ConfigError(told, field=name)
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
    for place in ("tool", "tool.windlass"):
        table = table.get(place.rpartition(".")[2], {})
        if not isinstance(table, dict):
            raise ConfigError(f"{file}: {place}: wanted a table", field=place)
    for key, value in table.items():
        place = f"tool.windlass.{key}"
        if key not in KEYS:
            known = f"{hint(key, KEYS)} (known: {', '.join(KEYS)})"
            raise ConfigError(f"{file}: {place} is not known{known}", field=place)
        if not isinstance(value, str):
            kind = type(value).__name__
            raise ConfigError(f"{file}: {place}: found {kind}, wanted text", field=place)
    found = dict(table)
    if found.get("store"):
        found["store"] = _beside(file, found["store"])
    return found


def _beside(file: Path, given: str) -> str:
    """Return an address whose file is relative to the settings file that names it."""
    address = store_address(given)
    path = store_file(address)
    return address if path is None or path.is_absolute() else f"{_SQLITE}{file.parent / path}"
