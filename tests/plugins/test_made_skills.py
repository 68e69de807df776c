"""Skills made in code: told of, read, kept to their tools and checked like those in folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.skill_maker import make_skill
from tests.plugins.skilled_turn import HEAD, begun, brief, may_call, read
from tests.scenarios.readings import last_told
from tests.scenarios.stage import STORES, Stage
from tests.scenarios.test_overrides import prompt_of
from windlass import Agent, tool
from windlass.errors import ConfigError, ToolError
from windlass.kernel import Stopped
from windlass.plugins import Skill, Skills
from windlass.testing import Scenario, ScriptedModel, call, kill_everywhere, say


@tool(effect="pure")
def fill_form(field: str) -> str:
    """Fill a form."""
    return f"filled {field}"


@tool(effect="pure")
def write(text: str) -> str:
    """Write."""
    return f"wrote {text}"


FORMS = Skill(
    "forms",
    'Fills forms: use it when\n  there is a "form".',
    "Read notes/fields.md, then fill_form.",
    tools=[fill_form],
    allowed_tools=["look"],
    files={"notes/fields.md": "Dates are 2031-01-31.", "logo.bin": b"\xff\x00"},
)


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


async def test_a_skill_made_in_code_is_told_of_and_read() -> None:
    plugin = Skills(FORMS)

    told = await brief(plugin, await begun(plugin))
    lines = (await read(plugin, "forms")).splitlines()

    assert told == f'{HEAD}- forms: Fills forms: use it when there is a "form".'
    assert lines[0].startswith("Skill forms, revision ")
    assert lines[2:] == [
        "Read notes/fields.md, then fill_form.",
        "",
        "Tools of this skill: fill_form",
        "",
        "Other tools that may be called in this turn from now on: look",
        "",
        'Files of this skill, for read_skill(name="forms", file=…):',
        "- logo.bin (2 bytes)",
        "- notes/fields.md (21 bytes)",
    ]
    assert await read(plugin, "forms", "notes/fields.md") == "Dates are 2031-01-31."
    assert "not text" in await read(plugin, "forms", "logo.bin")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", ".env", "gone.md", "notes"])
async def test_a_path_to_no_file_of_the_skill_is_refused(path: str) -> None:
    with pytest.raises(ToolError):
        await read(Skills(FORMS), "forms", path)


async def test_its_tools_are_denied_until_it_was_read() -> None:
    plugin = Skills(FORMS)
    turn = await begun(plugin)

    reason = await may_call(plugin, turn, "fill_form")

    assert reason == (
        'fill_form belongs to the skill forms. Read that first: read_skill(name="forms")'
    )
    assert [one.spec.name for one in plugin.tools()] == ["read_skill", "fill_form"]


async def test_skills_of_both_kinds_stand_together_and_the_made_one_of_a_name_is_used(
    tmp_path: Path,
) -> None:
    make_skill(tmp_path, "docx")
    make_skill(tmp_path, "forms", description="Another one.")
    plugin = Skills(tmp_path, FORMS)

    told = await brief(plugin, await begun(plugin))

    assert told.splitlines()[2:] == [
        "- docx: What docx is for.",
        '- forms: Fills forms: use it when there is a "form".',
    ]
    place = f"{tmp_path}/forms/SKILL.md"
    assert plugin.left_out == (
        f"{place}: found a second skill of this name, the first one is used",
    )


async def test_made_skills_can_be_enabled_and_disabled() -> None:
    other = Skill("other", "Other.", "Do it.")

    assert "- forms" not in await brief(one := Skills(FORMS, other, disabled=["forms"]), await begun(one))  # fmt: skip
    assert "- other" not in await brief(two := Skills(FORMS, other, enabled=["forms"]), await begun(two))  # fmt: skip
    with pytest.raises(ConfigError, match="disabled"):
        Skills(FORMS, disabled=["gone"])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "Forms"}, "Skill.name"),
        ({"name": 7}, "Skill.name"),
        ({"description": " "}, "Skill forms: description"),
        ({"description": None}, "Skill forms: description"),
        ({"text": ""}, "Skill forms: text"),
        ({"text": "a\x00b"}, "Skill forms: text"),
        ({"tools": [len]}, "Skill forms: tools"),
        ({"allowed_tools": "look"}, "Skill forms: allowed_tools"),
        ({"allowed_tools": [1]}, r"Skill forms: allowed_tools\[0\]"),
        ({"files": ["a.md"]}, "Skill forms: files"),
        ({"files": {"../a.md": "x"}}, "a path that leads upwards"),
        ({"files": {"SKILL.md": "x"}}, "a file that is there already"),
        ({"files": {"a.md": 7}}, r"Skill forms: files\['a.md'\]"),
    ],
)
def test_a_skill_that_cannot_be_used_is_refused_by_field(wrong: dict[str, Any], words: str) -> None:
    right: dict[str, Any] = {"name": "forms", "description": "Fills.", "text": "Fill."}

    with pytest.raises(ConfigError, match=words):
        Skill(**right | wrong)


def test_two_of_a_name_and_files_that_are_too_large_are_refused() -> None:
    with pytest.raises(ConfigError, match="two named forms"):
        Skills(FORMS, FORMS)
    with pytest.raises(ConfigError, match=r"Skill forms: SKILL\.md: found 143 bytes"):
        Skills(FORMS, max_file_bytes=142)
    with pytest.raises(ConfigError, match="at least one folder or Skill"):
        Skills()
    with pytest.raises(ConfigError, match="prompter"):
        Skills(FORMS, prompter="text")  # type: ignore[arg-type]  # wrong on purpose


def shout(skills: Sequence[Any]) -> str:
    return "SKILLS: " + ", ".join(f"{one.name.upper()} ({one.description})" for one in skills)


async def test_a_prompter_writes_what_is_told_of_skills(stage: Stage) -> None:
    model = ScriptedModel([call("read_skill", name="docx"), say("Done.")])
    plugin = Skills(Skill("docx", "Writes.", "Write it."), prompter=shout)
    async with stage.runtime(Agent("a", model=model, plugins=[plugin])) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    wanted = "## Guidance\n\n### Skills\n\nSKILLS: DOCX (Writes.)"
    assert [prompt_of(request) for request in model.requests] == [wanted, wanted]


@pytest.mark.parametrize("wrong", [lambda _skills: 7, lambda _skills: "x" * 40_000])
async def test_a_prompter_that_writes_no_text_or_too_much_ends_the_turn(
    wrong: Any,  # noqa: ANN401 - wrong on purpose
    tmp_path: Path,
) -> None:
    model = ScriptedModel([say("Done.")])
    async with Stage("memory", tmp_path).runtime(
        Agent("a", model=model, plugins=[Skills(FORMS, prompter=wrong)])
    ) as rt:
        result = await rt.session("s").run("Go.")

    assert isinstance(result.outcome, Stopped)
    assert (result.outcome.reason, "skills" in result.outcome.detail) == ("runtime_error", True)


async def test_a_made_skill_is_used_over_a_crash_at_every_point() -> None:
    def scenario() -> Scenario:
        def agents() -> Agent[None, str]:
            script = [call("read_skill", name="forms"), call("write", text="1"), call("fill_form", field="1"), say("Done.")]  # fmt: skip
            return Agent("a", model=ScriptedModel(script), tools=[write], plugins=[Skills(FORMS)])

        async def run(rt: Any) -> object:  # noqa: ANN401 - a runtime
            result = await rt.session("s").run("Go.", turn_id="t")
            return [one.outcome.status for one in result.tool_calls]

        def check(found: object) -> None:
            assert found == ["ok", "denied", "ok"]

        return Scenario(agents=agents, run=run, check=check)

    await kill_everywhere(scenario)


async def test_the_model_uses_a_made_skill_in_a_turn(stage: Stage) -> None:
    script = [call("fill_form", field="0"), call("read_skill", name="forms"), call("fill_form", field="1"), say("Done.")]  # fmt: skip
    model = ScriptedModel(script)
    async with stage.runtime(Agent("a", model=model, plugins=[Skills(FORMS)])) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    assert [one.status for one in last_told(model)] == ["denied", "ok", "ok"]
