"""Skills that were published for other agents work as they are: those of a package from the registry."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from tests.scenarios.readings import words
from windlass import Agent
from windlass.kernel.messages import ToolResult
from windlass.plugins import Skills
from windlass.testing import ScriptedModel, call, say

# Read off the package by hand.
PUBLISHED = [
    "claude-api",
    "data-analyzer",
    "design-api",
    "diagnose",
    "drilldown-analyzer",
    "grill-docs",
    "grill-me",
    "improve-arch",
    "mcp-builder",
    "pdf",
    "playwright",
    "playwright-interactive",
    "python-code",
    "python-fp",
    "python-pep8",
    "qa",
    "refactor",
    "sec-review",
    "setup-pre-commit",
    "tdd",
    "to-issues",
    "to-prd",
    "triage",
    "ubiquitous-language",
    "webapp-testing",
    "write-docs",
    "write-skill",
    "xlsx",
]


def published() -> Path:
    """Return where the package keeps its folders; nothing of it is imported."""
    spec = find_spec("claude_skills")
    assert spec is not None, (
        "the package claude-skills is missing; make clean && make test installs it"
    )
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "skills"


async def test_every_published_skill_is_told_of_and_none_is_left_out() -> None:
    plugin = Skills(published())
    model = ScriptedModel([say("Done.")])

    await Agent("clerk", model=model, plugins=[plugin]).run("What can you do?")

    prompt = words(model.requests[0].messages[0].parts)
    assert plugin.left_out == ()
    assert [name for name in PUBLISHED if f"{name}:" not in prompt] == []
    assert sorted(path.parent.name for path in published().glob("*/SKILL.md")) == PUBLISHED


async def test_a_published_skill_is_read_with_a_reference_and_a_script_of_its_folder() -> None:
    script = [
        call("read_skill", name="pdf"),
        call("read_skill", name="pdf", file="forms.md"),
        call("read_skill", name="pdf", file="scripts/check_fillable_fields.py"),
        call("read_skill", name="pdf", file="../xlsx/SKILL.md"),
        say("Done."),
    ]
    model = ScriptedModel(script)

    result = await Agent("clerk", model=model, plugins=[Skills(published())]).run("Fill the form.")

    assert [one.outcome.status for one in result.tool_calls] == ["ok", "ok", "ok", "error"]
    last = [request.messages[-1].parts[0] for request in model.requests[1:4]]
    body, forms, checks = (words(part.content) for part in last if isinstance(part, ToolResult))
    folder = published() / "pdf"
    text = (folder / "SKILL.md").read_text()
    assert text.split("---\n", 2)[2].strip().splitlines()[0] in body
    assert "scripts/check_fillable_fields.py" in body
    assert (folder / "forms.md").read_text().strip()[:500] in forms
    assert (folder / "scripts" / "check_fillable_fields.py").read_text().strip()[:200] in checks
