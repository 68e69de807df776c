"""Each import contract is broken on purpose, and by name: a red exit alone proves nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LAYERS = "Layers"
PURE = "The kernel is pure"
PICKLE = "Nothing unpickles"
STRANGERS = "Adapters of a kind are strangers"
CYCLES = "No cycles"
DOOR = "One door"
ALL = {LAYERS, PURE, PICKLE, STRANGERS, CYCLES, DOOR}

PURE_PACKAGES = ("errors", "folds", "guards", "journal", "kernel")

LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"
VERDICT = re.compile(r"^(?P<name>.+?) (?P<verdict>KEPT|BROKEN)\b", re.MULTILINE)

TYPE_CHECKING_ONLY = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "


def verdicts(folder: Path) -> dict[str, str]:
    """Lint a copy of the project and read what is said of each contract."""
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = {m["name"].strip(): m["verdict"] for m in VERDICT.finditer(done.stdout)}
    assert found, f"nothing was linted:\n{done.stdout}{done.stderr}"
    return found


def broken(folder: Path) -> set[str]:
    found = verdicts(folder)
    assert set(found) == ALL
    return {name for name, verdict in found.items() if verdict == "BROKEN"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The sources and the contracts, in a place where they may be spoiled."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
    )
    return tmp_path


def plant(project: Path, files: dict[str, str]) -> None:
    """Add files below src/windlass, each beside an `__init__.py` in every folder on its way."""
    package = project / "src" / "windlass"
    for name, source in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in path.relative_to(package).parents:
            (package / folder / "__init__.py").touch()
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(f"{before}\n{source}\n", encoding="utf-8")


def test_the_contracts_are_these() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    names = [contract["name"] for contract in config["tool"]["importlinter"]["contracts"]]

    assert set(names) == ALL
    assert len(names) == len(ALL)


def test_the_clean_tree_keeps_every_contract(project: Path) -> None:
    assert verdicts(project) == dict.fromkeys(ALL, "KEPT")


@pytest.mark.parametrize(
    ("contract", "files"),
    [
        pytest.param(LAYERS, {"guards/planted.py": "import windlass.kernel"}, id="guards-kernel"),
        pytest.param(LAYERS, {"errors.py": "import windlass.guards"}, id="errors-guards"),
        pytest.param(
            LAYERS,
            {"journal/keys.py": "", "kernel/planted.py": "import windlass.journal.keys"},
            id="kernel-journal",
        ),
        pytest.param(
            LAYERS,
            {"ports/store.py": "", "journal/claim.py": "from windlass.ports import store"},
            id="journal-ports",
        ),
        pytest.param(
            LAYERS,
            {"net/client.py": "", "ports/model.py": "import windlass.net.client"},
            id="ports-net",
        ),
        pytest.param(
            LAYERS,
            {"tools/toolbox.py": "", "ports/model.py": "import windlass.tools.toolbox"},
            id="ports-tools",
        ),
        pytest.param(
            LAYERS, {"ports/model.py": "import windlass.folds.turn_fold"}, id="ports-folds"
        ),
        pytest.param(
            LAYERS,
            {"folds/planted.py": "import windlass.tools.planted", "tools/planted.py": ""},
            id="folds-tools",
        ),
        pytest.param(
            LAYERS,
            {"net/client.py": "", "tools/planted.py": "import windlass.net.client"},
            id="tools-net",
        ),
        pytest.param(
            LAYERS,
            {"runtime/planted.py": "from windlass.stores import memory"},
            id="runtime-store",
        ),
        pytest.param(
            LAYERS,
            {"models/scripted.py": "", "plugins/retry.py": "import windlass.models.scripted"},
            id="plugin-model",
        ),
        pytest.param(
            LAYERS,
            {"engines/planted.py": "import windlass.api.agent"},
            id="engine-api",
        ),
        pytest.param(
            LAYERS,
            {"cli/planted.py": "import windlass.testing.planted", "testing/planted.py": ""},
            id="cli-testing",
        ),
        pytest.param(LAYERS, {"gadgets/planted.py": ""}, id="unplaced-package"),
        pytest.param(LAYERS, {"gadget.py": ""}, id="unplaced-module"),
        pytest.param(
            LAYERS,
            {"guards/planted.py": f"{TYPE_CHECKING_ONLY}import windlass.kernel"},
            id="for-the-type-checker-only",
        ),
        pytest.param(
            LAYERS,
            {"guards/planted.py": "def late():\n    import windlass.kernel"},
            id="inside-a-function",
        ),
        pytest.param(PURE, {"kernel/planted.py": "import time"}, id="kernel-time"),
        pytest.param(PURE, {"kernel/planted.py": "import asyncio"}, id="kernel-asyncio"),
        pytest.param(PURE, {"kernel/planted.py": "from os import path"}, id="kernel-os"),
        pytest.param(PURE, {"kernel/planted.py": "import datetime"}, id="kernel-datetime"),
        pytest.param(PURE, {"kernel/planted.py": "import random"}, id="kernel-random"),
        pytest.param(PURE, {"guards/planted.py": "import secrets"}, id="guards-secrets"),
        pytest.param(PURE, {"errors.py": "import logging"}, id="errors-logging"),
        pytest.param(PURE, {"journal/keys.py": "import uuid"}, id="journal-uuid"),
        pytest.param(PURE, {"folds/planted.py": "import asyncio"}, id="folds-asyncio"),
        pytest.param(
            PURE,
            {"ports/views.py": "import time", "folds/planted.py": "import windlass.ports.views"},
            id="folds-through-a-port",
        ),
        pytest.param(PICKLE, {"kernel/planted.py": "import pickle"}, id="kernel-pickle"),
        pytest.param(PICKLE, {"stores/rows.py": "from marshal import loads"}, id="store-marshal"),
        pytest.param(PICKLE, {"__init__.py": "import shelve"}, id="root-shelve"),
        pytest.param(
            STRANGERS,
            {"stores/sqlite/rows.py": "", "stores/memory.py": "import windlass.stores.sqlite.rows"},
            id="store-store",
        ),
        pytest.param(
            STRANGERS,
            {
                "engines/local.py": "",
                "engines/restate/endpoint.py": "import windlass.engines.local",
            },
            id="engine-engine",
        ),
        pytest.param(
            STRANGERS,
            {
                "models/openai_chat/reader.py": "",
                "models/openai_responses/reader.py": "import windlass.models.openai_chat.reader",
            },
            id="model-model",
        ),
        pytest.param(
            STRANGERS,
            {
                "models/google/lines.py": "",
                "models/openai/connection.py": "import windlass.models.google.lines",
            },
            id="shared-by-models",
        ),
        pytest.param(
            CYCLES,
            {
                "kernel/planted_a.py": "import windlass.kernel.planted_b",
                "kernel/planted_b.py": "import windlass.kernel.planted_a",
            },
            id="kernel-cycle",
        ),
        pytest.param(
            CYCLES,
            {
                "stores/sqlite/a.py": "import windlass.stores.sqlite.b",
                "stores/sqlite/b.py": "import windlass.stores.sqlite.a",
            },
            id="cycle-in-a-subpackage",
        ),
        pytest.param(DOOR, {"runtime/lane.py": "import apsw"}, id="runtime-apsw"),
        pytest.param(DOOR, {"runtime/planted.py": "import cronsim"}, id="another-runtime-file"),
        pytest.param(DOOR, {"stores/sqlite/rows.py": "import sqlite3"}, id="the-other-sqlite"),
        pytest.param(DOOR, {"models/anthropic/wire.py": "import httpx"}, id="model-httpx"),
        pytest.param(DOOR, {"models/google/request.py": "import google"}, id="another-models-file"),
        pytest.param(DOOR, {"net/client.py": "import requests"}, id="another-http-client"),
        pytest.param(DOOR, {"net/client.py": "import httpx"}, id="net-another-httpx"),
        pytest.param(DOOR, {"toolkit/planted.py": "import httpx2"}, id="toolkit-httpx2"),
        pytest.param(DOOR, {"toolkit/planted.py": "import markdownify"}, id="toolkit-markdown"),
        pytest.param(
            LAYERS, {"toolkit/planted.py": "import windlass.runtime.body"}, id="toolkit-runtime"
        ),
        pytest.param(
            LAYERS,
            {"sandbox/planted.py": "import windlass.toolkit.notes.shelf"},
            id="sandbox-toolkit",
        ),
        pytest.param(DOOR, {"kernel/planted.py": "import pydantic_monty"}, id="kernel-monty"),
        pytest.param(DOOR, {"trace/jsonl.py": "import opentelemetry"}, id="trace-otel"),
    ],
)
def test_a_planted_violation_breaks_the_contract_meant_for_it_and_no_other(
    contract: str, files: dict[str, str], project: Path
) -> None:
    plant(project, files)

    assert broken(project) == {contract}


def test_a_full_house_with_every_library_behind_its_door_keeps_every_contract(
    project: Path,
) -> None:
    plant(
        project,
        {
            "journal/keys.py": "import windlass.kernel",
            "ports/store.py": "import windlass.journal.keys",
            "folds/planted.py": "import windlass.ports.store",
            "net/client.py": "import httpx2",
            "stores/memory.py": "import windlass.ports.store",
            "stores/sqlite/connection.py": "import apsw, windlass.ports.store",
            "stores/postgres/connection.py": "import psycopg",
            "sandbox/monty.py": "import pydantic_monty",
            "trace/otel.py": "import opentelemetry.trace",
            "models/anthropic/wire.py": "import windlass.net.client",
            "runtime/lane.py": "import asyncio, time, windlass.ports.store",
            "engines/local.py": "import windlass.runtime.lane",
            "engines/restate/endpoint.py": "import restate, windlass.runtime.lane",
            "api/agent.py": "import windlass.engines.local, windlass.stores.sqlite.connection",
            "serve/app.py": "import starlette.routing, windlass.api.agent",
            "cli/planted.py": "import windlass.api.agent",
        },
    )

    assert broken(project) == set()


def test_every_pure_package_that_exists_is_named_in_the_purity_contract() -> None:
    """A wildcard covers a package's modules but not its own `__init__.py`."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {c["name"]: c for c in config["tool"]["importlinter"]["contracts"]}
    package = ROOT / "src" / "windlass"
    existing = {
        f"windlass.{name}"
        for name in PURE_PACKAGES
        if (package / name / "__init__.py").exists() or (package / f"{name}.py").exists()
    }

    assert existing <= set(contracts[PURE]["source_modules"])
