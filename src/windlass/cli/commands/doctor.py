"""`windlass doctor`: the store, the disk, keys and models."""

from __future__ import annotations

import asyncio
import platform
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.text import Text

from windlass import __version__
from windlass.api.adapters import KnownModels, open_store
from windlass.cli import exit_code
from windlass.cli.default_agent import default_model, has_local
from windlass.cli.health import Check, check_disk, check_hosts, check_keys, check_store
from windlass.cli.json_lines import write_json
from windlass.cli.keys import environment
from windlass.cli.options import JsonOption, StoreOption
from windlass.cli.settings import Settings, read_settings, store_file
from windlass.cli.terminal import console
from windlass.cli.wording import safe
from windlass.errors import ConfigError

_SIGNS = {"ok": ("✓", "green"), "note": ("·", "dim"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


def doctor(
    *,
    online: Annotated[
        bool, Parameter(name="--online", help="see whether models can be reached; sends no key")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Check the store, the disk below it, keys and models. Ends with 1 if something is wrong."""
    settings = read_settings(store=store)
    checks = _checks(settings)
    if online:
        checks += asyncio.run(check_hosts(environment()))
    is_well = all(check.status != "fail" for check in checks)
    if json:
        write_json({"ok": is_well, "checks": [msgspec.to_builtins(check) for check in checks]})
    else:
        _show(checks)
    return exit_code.OK if is_well else exit_code.NOT_FINISHED


def _checks(settings: Settings) -> list[Check]:
    release = f"{__version__}, Python {platform.python_version()} on {platform.system()}"
    checks = [Check(name="windlass", status="ok", detail=release)]
    file = store_file(settings.store)
    try:
        open_store(settings.store, settings.durability)
    except ConfigError as error:
        checks.append(Check(name="store", status="fail", detail=str(error)))
        file = None
    else:
        if file is None:
            checks.append(Check(name="store", status="note", detail="memory: nothing is kept"))
    if file is not None:
        checks += check_store(file)
        folder = file.absolute().parent
        if folder.is_dir():
            checks += check_disk(folder)
        else:
            checks.append(Check(name="disk", status="fail", detail=f"there is no folder {folder}"))
    checks += check_keys(environment())
    local = "installed" if has_local() else "not installed: windlass models get smollm2"
    checks.append(Check(name="local:smollm2", status="note", detail=local))
    checks.append(_check_model(settings))
    return checks


def _check_model(settings: Settings) -> Check:
    """Say which model is used without an agent, and whether it could be."""
    name = settings.model or default_model()
    source = settings.sources.get("model", "nobody named one")
    try:
        KnownModels().of(name)
    except ConfigError as error:
        return Check(name="model", status="fail", detail=f"{name} ({source}): {error}")
    return Check(name="model", status="note", detail=f"{name} ({source})")


def _show(checks: list[Check]) -> None:
    screen = console()
    width = max(len(check.name) for check in checks)
    for check in checks:
        sign, style = _SIGNS[check.status]
        line = Text.assemble((f"{sign} ", style), f"{check.name:<{width}}  ")
        line.append(safe(check.detail), style="dim" if check.status == "note" else "")
        screen.print(line, soft_wrap=True)
