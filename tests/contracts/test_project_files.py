"""The files around the code: what the README shows runs, what a command needs is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]

EXPECTED = (
    ".ci/run",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "GLOSSARY.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "changes/README.md",
    "docs/README.md",
    "docs/adr/README.md",
    "docs/adr/template.md",
    "pyproject.toml",
    "requirements/demo.lock",
    "requirements/dev.lock",
    "src/windlass/py.typed",
)
TARGETS = ("bench", "check", "clean", "demo", "fmt", "help", "mutants", "soak", "test")
FRAGMENT = re.compile(
    r"(\d+|\+[a-z0-9-]+)\.(breaking|docs|feature|fix|format|internal|security)(\.\d+)?\.md"
)

# Put together here, so that this file does not contain them.
FOREIGN = (
    "/" + "work/",
    "/" + "root/",
    "/" + "home/",
    "py" + "pi.org",
    "python" + "hosted.org",
    "--" + "index-url",
    "--" + "extra-index-url",
)

FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Runs a page's program as `python -m asyncio` would: it may await outside of a function.
RUN_PAGE = """
import ast, asyncio, pathlib, sys
sys.argv = sys.argv[1:]
source = pathlib.Path(sys.argv[0]).read_text(encoding="utf-8")
code = compile(source, sys.argv[0], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
running = eval(code)
if running is not None:
    asyncio.run(running)
"""
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")


def project_files() -> list[Path]:
    """What is in the repository or about to be; outside of one, whatever is not made by a tool."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [
            path
            for path in ROOT.rglob("*")
            if not any(
                part.startswith(".") or part == "__pycache__"
                for part in path.relative_to(ROOT).parts
            )
        ]
    return sorted(path for path in paths if path.is_file())


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def foreign_words(text: str) -> list[str]:
    return [word for word in FOREIGN if word in text]


def program(page: str) -> str:
    """A page's Python blocks as one program: in order, in one namespace, on the lines of the page."""
    lines: list[str] = []
    for block in FENCE.finditer(page):
        first = page.count("\n", 0, block.start(1))
        lines += [""] * (first - len(lines))
        lines += block[1].splitlines()
    return "\n".join(lines)


def examples() -> list[object]:
    """Every page a user reads that has Python blocks, as the program they make together."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in pages
        if FENCE.search(text_of(page))
    ]


def run_example(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / page.with_suffix(".py").name
    script.write_text(program(text_of(page)), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN_PAGE, str(script)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def configuration() -> dict[str, dict[str, object]]:
    return tomllib.loads(text_of(ROOT / "pyproject.toml"))


def locked(name: str) -> dict[str, str]:
    """The entries of a lock by package: version and hashes, as they are written."""
    lock = text_of(ROOT / "requirements" / name)
    entries = re.split(r"^(?=[a-z0-9-]+==)", lock, flags=re.MULTILINE)[1:]
    return {package: rest for package, _, rest in (entry.partition("==") for entry in entries)}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_file_is_there(name: str) -> None:
    assert (ROOT / name).is_file()


def test_ci_can_be_executed() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("target", TARGETS)
def test_the_command_exists_and_explains_itself(target: str) -> None:
    assert re.search(rf"^{target}:.*## \S", text_of(ROOT / "Makefile"), re.MULTILINE)


def test_the_readme_has_an_example() -> None:
    assert FENCE.search(text_of(ROOT / "README.md"))


@pytest.mark.parametrize("page", examples())
def test_the_examples_of_a_page_run_as_they_are_printed(page: Path, tmp_path: Path) -> None:
    done = run_example(page, tmp_path)

    assert done.returncode == 0, done.stderr


def test_blocks_share_a_namespace_and_a_failure_names_its_line(tmp_path: Path) -> None:
    """The red proof: the second block knows the first one's name, and fails on the page's line."""
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n```python\nx = 2\n```\n\nWords.\n\n```\nnot Python\n```\n\n```python\nassert x == 3\n```\n",
        encoding="utf-8",
    )

    done = run_example(page, tmp_path)

    assert done.returncode == 1
    assert 'page.py", line 14, in <module>' in done.stderr
    assert done.stderr.endswith("AssertionError\n")


def test_a_page_may_await_outside_of_a_function(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nimport asyncio\n\nawait asyncio.sleep(0)\n```\n\n```python\nassert False\n```\n",
        encoding="utf-8",
    )

    done = run_example(page, tmp_path)

    assert done.returncode == 1
    assert 'page.py", line 8, in <module>' in done.stderr


def test_no_file_names_a_machine_path_or_a_package_host() -> None:
    found = {
        str(path.relative_to(ROOT)): words
        for path in project_files()
        if (words := foreign_words(text_of(path)))
    }

    assert found == {}


@pytest.mark.parametrize("word", FOREIGN)
def test_a_foreign_word_is_seen_wherever_it_stands(word: str) -> None:
    assert foreign_words(f"see (https://{word}x) there") == [word]


def test_a_link_between_pages_leads_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {match['target']}"
        for page in project_files()
        if page.suffix == ".md"
        for match in LINK.finditer(text_of(page))
        if "://" not in match["target"] and not (page.parent / match["target"]).exists()
    ]

    assert broken == []


def test_a_changelog_fragment_has_a_known_type_and_says_something() -> None:
    fragments = [path for path in (ROOT / "changes").iterdir() if path.name != "README.md"]

    assert [path.name for path in fragments if not FRAGMENT.fullmatch(path.name)] == []
    assert [path.name for path in fragments if not text_of(path).strip()] == []


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("12.fix.md", True),
        ("+kernel.feature.md", True),
        ("12.fix.2.md", True),
        ("12.bugfix.md", False),
        ("kernel.feature.md", False),
        ("12.fix", False),
        ("12.fix.rst", False),
    ],
)
def test_a_fragment_is_named_for_an_issue_or_with_a_plus(name: str, accepted: bool) -> None:
    assert bool(FRAGMENT.fullmatch(name)) is accepted


@pytest.mark.parametrize("name", ["demo.lock", "dev.lock"])
def test_the_lock_pins_by_hash_and_names_no_place(name: str) -> None:
    entries = locked(name)

    assert entries
    assert [package for package, rest in entries.items() if "--hash=sha256:" not in rest] == []
    assert "://" not in text_of(ROOT / "requirements" / name)


def test_the_lock_satisfies_what_the_project_asks_for() -> None:
    config = configuration()
    wanted = [*config["project"]["dependencies"], *config["dependency-groups"]["dev"]]  # type: ignore[misc]
    versions = {package: rest.split()[0] for package, rest in locked("dev.lock").items()}

    unmet = [
        text
        for text in wanted
        if not Requirement(text).specifier.contains(versions.get(Requirement(text).name, "0.dev0"))
    ]

    assert unmet == []


def test_the_demo_installs_what_the_library_depends_on_and_nothing_else() -> None:
    dependencies = configuration()["project"]["dependencies"]
    demo, dev = locked("demo.lock"), locked("dev.lock")

    assert set(demo) == {Requirement(text).name for text in dependencies}  # type: ignore[attr-defined]
    assert demo == {package: dev[package] for package in demo}


def test_clean_removes_every_environment_that_make_builds() -> None:
    makefile = text_of(ROOT / "Makefile")
    environments = set(re.findall(r"-m venv --clear (\S+)", makefile))
    (removed,) = re.findall(r"^clean:.*\n\t@rm -rf (.*)$", makefile, re.MULTILINE)

    assert environments == {"$(VENV)", "$(DEMO_VENV)"}
    assert environments <= set(removed.split())
