"""What a newcomer types first, with the demo model: it answers well, in a process of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.started import windlass
from tests.contracts.test_project_files import ROOT, run_example, text_of


def test_the_first_command_of_the_guide_is_answered(tmp_path: Path) -> None:
    (asked,) = re.findall(
        r'^\$ windlass run "(.*)"$', text_of(ROOT / "docs/guides/cli.md"), re.MULTILINE
    )

    done = windlass("run", asked, "--model", "demo", cwd=tmp_path)

    assert asked == "What is 17 % of 2400?"
    assert (done.returncode, done.stdout) == (0, "17 % of 2400 = 408.\n")
    assert 'calculate(expression="2400 * 17 / 100"): ok' in done.stderr


def test_the_example_of_the_readme_shows_the_whole_key(tmp_path: Path) -> None:
    printed = run_example(ROOT / "README.md", tmp_path).stdout

    assert re.fullmatch(
        r"refund answered 900 cents for A-17, booked under wl_[0-9a-f]{40}\.\n", printed
    )


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (
            "Hello",
            'I am the demo model: a few rules, no language model. I have no rule for "Hello". ',
        ),
        ("Read the file app.py.", "read_file answered app.py: lines 1 to 1 of 1, version "),
        ("What files are there? List the files.", "list_files answered .: 1 name app.py"),
    ],
)
def test_the_default_agent_has_something_to_say(tmp_path: Path, said: str, answer: str) -> None:
    (tmp_path / "app.py").write_text("# app", encoding="utf-8")

    done = windlass("run", said, "--model", "demo", cwd=tmp_path)

    assert done.returncode == 0
    assert done.stdout.startswith(answer)
