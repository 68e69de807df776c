"""The `windlass` command: its help, its exit codes, what it costs to start, what it says of mistakes."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import windlass as package
from tests.cli.started import COMMAND, clean_environment, windlass
from windlass.cli import catalogue, exit_code
from windlass.cli.main import main
from windlass.errors import ConfigError, StoreUnavailable, WindlassBug

HEAVY = ("asyncio", "apsw", "cyclopts", "msgspec", "rich", "anthropic", "openai", "xllamacpp")
WANTED_MS = 150


def test_it_says_which_release_it_is(tmp_path: Path) -> None:
    done = windlass("--version", cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"windlass {package.__version__}\n",
        "",
    )


def test_the_installed_command_is_the_same_program() -> None:
    script = Path(sys.executable).with_name("windlass")

    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)

    assert done.stdout == f"windlass {package.__version__}\n"


def test_help_names_every_command_and_exit_code(tmp_path: Path) -> None:
    done = windlass("--help", cwd=tmp_path)

    assert done.returncode == 0
    for name in (
        "chat", "run", "sessions", "show", "tail", "waits", "approve", "deny", "cancel", "fork", "repair",
        "usage", "export", "doctor", "bench", "demo", "models",
    ):  # fmt: skip
        assert re.search(rf"^  {name} +\S", done.stdout, re.MULTILINE), name
    codes = re.findall(r"^  (\d+) ", done.stdout, re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "4", "70", "74", "130", "141", "143"]


def processor_ms_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1_000


def test_help_starts_within_150_ms(tmp_path: Path) -> None:
    """On the processor, the best of several: what a loaded machine adds is not what the program costs."""
    taken = []
    for _ in range(8):
        begun = processor_ms_of_children()
        subprocess.run([*COMMAND, "--help"], capture_output=True, check=True, cwd=tmp_path)
        taken.append(processor_ms_of_children() - begun)

    assert min(taken) <= WANTED_MS


def test_help_loads_neither_a_loop_nor_a_foreign_library() -> None:
    look = (
        "import sys; from windlass.cli.main import main; main(['--help']);"
        f"print('loaded:', *sorted(set({HEAVY!r}) & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "loaded:"


@pytest.mark.parametrize(
    "command", [each.name for each in catalogue.COMMANDS if each.name != "demo"]
)
def test_each_command_has_help_of_its_own(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0

    told = capsys.readouterr().out
    assert f"windlass {command}" in told
    assert "--json" in told


def test_the_demo_keeps_its_options(tmp_path: Path) -> None:
    options = set(re.findall(r"--[a-z-]+", windlass("demo", "--help", cwd=tmp_path).stdout))

    assert options == {"--plain", "--json", "--dir", "--help"}


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        pytest.param([], "Usage: windlass COMMAND", id="nothing"),
        pytest.param(["sesions"], "did you mean sessions?", id="command"),
        pytest.param(["sessions", "--stor", "x"], "Did you mean --store?", id="option"),
        pytest.param(["sessions", "--limit", "many"], "--limit", id="value"),
        pytest.param(["approve"], "KEY", id="missing"),
        pytest.param(["demo", "--colour"], "--colour", id="demo-option"),
        pytest.param(["demo", "now"], "now", id="demo-positional"),
    ],
)
def test_wrong_arguments_are_answered_with_2_and_no_traceback(
    args: list[str], complaint: str, tmp_path: Path
) -> None:
    done = windlass(*args, cwd=tmp_path)

    assert done.returncode == 2
    assert done.stdout == ""
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith(("windlass", "Usage: windlass", "usage: windlass"))


def test_without_the_extra_one_line_names_the_command_that_brings_it(tmp_path: Path) -> None:
    hide = (
        "import sys; sys.modules['cyclopts'] = None;"
        "from windlass.cli.main import main; raise SystemExit(main(['sessions']))"
    )

    done = subprocess.run(
        [sys.executable, "-c", hide],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=clean_environment(),
    )

    assert done.returncode == 2
    assert done.stderr == (
        "windlass sessions needs an extra: pip install '.[cli]' in a checkout of windlass"
        " (windlass-runtime is not published yet)\n"
    )


def test_without_the_extra_the_demo_runs(tmp_path: Path) -> None:
    hide = (
        "import sys; sys.modules['cyclopts'] = sys.modules['rich'] = None;"
        "from windlass.cli.main import main; raise SystemExit(main(['demo', '--plain']))"
    )

    done = subprocess.run(
        [sys.executable, "-c", hide], capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ConfigError("store: wanted another"), 2, "windlass: store: wanted another\n"),
        (StoreUnavailable("the disk is full"), 4, "windlass: the disk is full\n"),
        (WindlassBug("a law broke"), 70, "windlass: this is a defect in windlass"),
        (ZeroDivisionError("1/0"), 70, "ZeroDivisionError: 1/0"),
    ],
)
def test_errors_become_a_line_and_a_code(
    error: Exception,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_words: list[str]) -> int:
        raise error

    monkeypatch.setattr("windlass.cli.main._run", fail)

    assert main(["sessions"]) == code
    said = capsys.readouterr().err
    assert told in said
    assert "Traceback" not in said
    monkeypatch.setenv("WINDLASS_DEBUG", "1")
    main(["sessions"])
    assert "Traceback" in capsys.readouterr().err


def test_an_error_is_json_where_json_was_asked_for(tmp_path: Path) -> None:
    done = windlass("sessions", "--json", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(
        '{"error":{"code":"config_error","message":"store: windlass.db does not exist'
    )


@pytest.mark.parametrize(
    ("args", "field"),
    [
        pytest.param(["sesions"], "command", id="command"),
        pytest.param(["sessions", "--stor", "x"], "arguments", id="option"),
        pytest.param(["sessions", "--limit", "many"], "arguments", id="value"),
        pytest.param(["approve"], "arguments", id="missing"),
        pytest.param(["waits", "--kind", "aproval"], "arguments", id="kind"),
        pytest.param(["run", "two", "words"], "arguments", id="unquoted"),
    ],
)
def test_wrong_arguments_are_json_where_json_was_asked_for(
    args: list[str], field: str, tmp_path: Path
) -> None:
    done = windlass(*args, "--json", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    told = json.loads(done.stderr)["error"]
    assert (told["code"], told["field"]) == ("invalid_input", field)


def test_words_without_quotes_are_told_what_they_need(tmp_path: Path) -> None:
    done = windlass("run", "What", "is", "this?", cwd=tmp_path)

    assert done.stderr == (
        "windlass: run: unexpected argument 'is this?'; put text of several words in quotes "
        "(windlass run --help)\n"
    )


def test_the_codes_are_what_the_guide_says() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/cli.md").read_text(encoding="utf-8")

    for code, meaning in exit_code.MEANINGS:
        assert f"| {code} | {meaning} |" in guide


def test_a_folder_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x", encoding="utf-8")

    done = windlass("demo", "--dir", str(tmp_path), cwd=tmp_path)

    assert done.returncode == 2
    assert f"{tmp_path} is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")

    done = windlass("demo", "--dir", str(tmp_path / "file" / "below"), cwd=tmp_path)

    assert done.returncode == 2
    assert "Not a directory" in done.stderr
