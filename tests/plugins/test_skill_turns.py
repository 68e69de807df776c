"""Skills in whole turns: what the model is told and reads, over turns, crashes and calls side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.scene import play
from tests.plugins.skill_maker import make_skill
from tests.scenarios.readings import last_told, told, words
from tests.scenarios.stage import STORES, Stage
from windlass import Agent, Runtime, ToolContext, TurnResult, tool
from windlass.kernel import ModelRequest
from windlass.kernel.events import PluginEvent
from windlass.kernel.messages import Attachment, ToolResult
from windlass.plugins.skills import Skills
from windlass.testing import Scenario, ScriptedModel, call, calls, kill_everywhere, say
from windlass.testing.crashing.kill_everywhere import StoreKind

HEAD = (
    "## Guidance\n\n### Skills\n\nSkills are instructions for certain tasks. When a task fits one of these, read "
    "it with read_skill before you begin, and do as it says.\n\n"
)


@tool(effect="pure")
def fill_form(field: str) -> str:
    """Fill a form."""
    return f"filled {field}"


@tool(effect="pure")
def write(text: str) -> str:
    """Write."""
    return f"wrote {text}"


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "skills"
    make_skill(made, "pdf", "allowed-tools: look", body="Fill it.", files={"a.md": "the a"})
    make_skill(made, "docx", body="Write it.")
    return made


def prompt(request: ModelRequest) -> str:
    return "".join(words(each.parts) for each in request.messages if each.role == "system")


async def test_the_model_is_told_of_skills_and_reads_them(stage: Stage, root: Path) -> None:
    script = [call("read_skill", name="pdf"), call("read_skill", name="pdf", file="a.md"), say("Done.")]  # fmt: skip
    model = ScriptedModel(script)
    agent = Agent("a", model=model, instructions="You are kind.", plugins=[Skills(root)])
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    wanted = f"You are kind.\n\n{HEAD}- docx: What docx is for.\n- pdf: What pdf is for."
    assert [prompt(request) for request in model.requests] == [wanted] * 3
    first, second = last_told(model)
    assert first.text.splitlines()[2:] == [
        "Fill it.",
        "",
        "Other tools that may be called in this turn from now on: look",
        "",
        'Files of this skill, for read_skill(name="pdf", file=…):',
        "- a.md (5 bytes)",
    ]
    assert second.text == "the a"
    assert result.text == "Done."


async def test_without_the_tool_on_offer_there_are_no_briefs(stage: Stage, root: Path) -> None:
    class NoTools(Skills):
        def tools(self) -> tuple[()]:
            return ()

    model = ScriptedModel([say("Done.")])
    agent = Agent("a", model=model, instructions="Be kind.", plugins=[NoTools(root)])
    async with stage.runtime(agent) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    assert prompt(model.requests[0]) == "Be kind."


async def test_a_path_out_of_the_skill_is_told_to_the_model_and_the_turn_goes_on(
    stage: Stage, root: Path
) -> None:
    paths = ["../docx/SKILL.md", "/etc/passwd", ".env", "nope"]
    model = ScriptedModel(
        [calls(*[("read_skill", {"name": "pdf", "file": path}) for path in paths]), say("Done.")]
    )
    async with stage.runtime(Agent("a", model=model, plugins=[Skills(root)])) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    wanted = "wanted a path in the skill's folder, such as references/guide.md"
    assert [(one.status, one.text) for one in last_told(model)] == [
        ("error", f"../docx/SKILL.md: found a path that leads upwards, {wanted}"),
        ("error", f"/etc/passwd: found an absolute path, {wanted}"),
        ("error", f".env: found a hidden file, {wanted}"),
        ("error", "nope: found no such file"),
    ]
    assert result.text == "Done."


async def test_a_tool_of_a_skill_runs_once_the_skill_was_read_also_in_later_turns(
    stage: Stage, root: Path
) -> None:
    def agent(*script: Any) -> tuple[Agent[None, str], ScriptedModel]:
        model = ScriptedModel(list(script))
        plugin = Skills(root, tools={"docx": [fill_form]})
        return Agent("a", model=model, plugins=[plugin]), model

    first, model = agent(
        calls(("read_skill", {"name": "docx"}), ("fill_form", {"field": "1"})),
        call("fill_form", field="2"),
        say("Done."),
    )
    async with stage.runtime(first) as rt:
        await rt.session("s").run("Go.", turn_id="t1")
    _read, early, late = last_told(model)
    reason = 'fill_form belongs to the skill docx. Read that first: read_skill(name="docx")'
    assert early.status == "denied"
    assert reason in early.text
    assert (late.status, late.text) == ("ok", "filled 2")

    second, model = agent(call("fill_form", field="3"), say("Done."))
    async with stage.runtime(second) as rt:
        await rt.session("s").run("Again.", turn_id="t2")
        assert last_told(model)[-1].text == "filled 3"
    other, model = agent(call("fill_form", field="4"), say("Done."))
    async with stage.runtime(other) as rt:
        await rt.session("another").run("Go.", turn_id="t")
    assert last_told(model)[-1].status == "denied"


async def test_while_a_skill_says_what_is_allowed_other_tools_are_denied(
    stage: Stage, root: Path
) -> None:
    model = ScriptedModel(
        [
            calls(("write", {"text": "1"}), ("read_skill", {"name": "pdf"})),
            calls(("write", {"text": "2"}), ("look", {})),
            call("read_skill", name="docx"),
            call("write", text="3"),
            say("Done."),
        ]
    )
    agent = Agent("a", model=model, tools=[write, look], plugins=[Skills(root)])
    async with stage.runtime(agent) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    results = last_told(model)
    reason = "write is not among the tools that the skill pdf, which was read last, allows: look"
    assert [one.status for one in results] == ["ok", "ok", "denied", "ok", "ok", "ok"]
    assert reason in results[2].text
    assert [results[at].text for at in (0, 3, 5)] == ["wrote 1", "seen", "wrote 3"]


async def test_of_two_skills_read_side_by_side_the_second_one_counts(
    stage: Stage, root: Path
) -> None:
    both = [("read_skill", {"name": "docx"}), ("read_skill", {"name": "pdf"})]
    model = ScriptedModel([calls(*both), call("write", text="1"), calls(*both[::-1]), call("write", text="2"), say("Done.")])  # fmt: skip
    agent = Agent("a", model=model, tools=[write], plugins=[Skills(root)])
    async with stage.runtime(agent) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    assert [one.status for one in last_told(model)] == ["ok", "ok", "denied", "ok", "ok", "ok"]


async def test_a_skill_that_changes_between_turns_is_told_anew(stage: Stage, root: Path) -> None:
    model = ScriptedModel([say("One."), call("read_skill", name="docx"), say("Two.")])
    async with stage.runtime(Agent("a", model=model, plugins=[Skills(root)])) as rt:
        await rt.session("s").run("Go.", turn_id="t1")
        make_skill(root, "docx", description="Changed.", body="Other words.")
        make_skill(root, "xlsx")
        (root / "pdf" / "SKILL.md").unlink()
        await rt.session("s").run("Again.", turn_id="t2")

    assert prompt(model.requests[0]) == f"{HEAD}- docx: What docx is for.\n- pdf: What pdf is for."
    wanted = f"{HEAD}- docx: Changed.\n- xlsx: What xlsx is for."
    assert [prompt(request) for request in model.requests[1:]] == [wanted, wanted]
    assert "Other words." in last_told(model)[0].text


async def test_a_skill_that_changes_in_mid_turn_keeps_its_brief_until_the_turn_ends(
    stage: Stage, root: Path
) -> None:
    @tool(effect="pure")
    def edit() -> str:
        """Change a skill."""
        make_skill(root, "docx", description="Changed.", body="Other words.")
        return "changed"

    model = ScriptedModel([call("edit"), call("read_skill", name="docx"), say("Done.")])
    agent = Agent("a", model=model, tools=[edit], plugins=[Skills(root)])
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    wanted = f"{HEAD}- docx: What docx is for.\n- pdf: What pdf is for."
    assert [prompt(request) for request in model.requests] == [wanted] * 3
    assert "Other words." in last_told(model)[1].text
    assert [issue.message for issue in result.issues] == [
        "skill docx: SKILL.md changed while the turn ran, and the newer one was read"
    ]


async def test_a_broken_skill_is_an_issue_of_the_turn_and_is_shown(
    stage: Stage, root: Path
) -> None:
    (root / "docx" / "SKILL.md").write_text("---\nname: other\n---\n", encoding="utf-8")
    model = ScriptedModel([say("Done.")])
    agent = Agent("a", model=model, plugins=[Skills(root)])
    async with stage.runtime(agent) as rt, rt.session("s").stream("Go.", turn_id="t") as turn:
        events = [event async for event in turn]
        result = await turn.result()

    reason = "found the name other, wanted that of its folder, docx"
    file = f"{root}/docx/SKILL.md"
    assert [issue.message for issue in result.issues] == [f"skill left out: {file}:2: {reason}"]
    assert prompt(model.requests[0]) == f"{HEAD}- pdf: What pdf is for."
    assert [
        (event.plugin, event.name, event.data) for event in events if isinstance(event, PluginEvent)
    ] == [("skills", "skill_left_out", {"file": file, "line": 2, "reason": reason})]


async def test_an_image_of_a_skill_is_shown_to_the_model(stage: Stage) -> None:
    model = ScriptedModel(
        [call("read_skill", name="meeting-minutes", file="assets/head.png"), say("Done.")]
    )
    plugin = Skills(Path(__file__).parent / "skills")
    async with stage.runtime(Agent("a", model=model, plugins=[plugin])) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    parts = [part for message in model.requests[-1].messages for part in message.parts]
    result = next(part for part in parts if isinstance(part, ToolResult))
    image = next(part for part in result.content if isinstance(part, Attachment))
    assert (image.media_type, image.name, image.n_bytes) == ("image/png", "head.png", 67)


# ------------------------------------------------------------------------------------- crashes


@pytest.mark.parametrize("kill_at", [1, 2])
async def test_what_was_read_before_a_crash_is_not_read_again(
    stage: Stage, root: Path, kill_at: int
) -> None:
    n_made = 0

    def make() -> Skills:
        nonlocal n_made
        n_made += 1
        if n_made == 2:  # the worker is dead: whoever goes on finds other files
            make_skill(root, "pdf", "allowed-tools: write", description="New.", body="New words.")
            make_skill(root, "docx", "allowed-tools: write", description="New.", body="New words.")
        return Skills(root, tools={"pdf": [fill_form]})

    script = [
        call("read_skill", name="pdf"),
        calls(("write", {"text": "1"}), ("fill_form", {"field": "2"})),
        say("Done."),
    ]
    played = await play(stage, make, script, kill_at=kill_at, tools=[write])

    assert n_made == 2
    wanted = f"{HEAD}- docx: What docx is for.\n- pdf: What pdf is for."
    assert {prompt(request) for request in played.requests} == {wanted}
    results = told(played.requests[-1])
    assert "Fill it." in results[0].text
    assert [one.status for one in results] == ["ok", "denied", "ok"]
    assert played.result.text == "Done."


def using_all(root: Path) -> Callable[[], Scenario]:
    """A turn in which skills do all they do; made anew for each crash."""

    def make() -> Scenario:
        ran: dict[str, int] = {}

        @tool(effect="keyed", name="fill_form")
        async def fill(ctx: ToolContext[Any], field: str) -> str:
            """Fill a form."""
            ran[ctx.idempotency_key] = ran.get(ctx.idempotency_key, 0) + 1
            return f"filled {field}"

        script = [
            calls(("fill_form", {"field": "early"}), ("read_skill", {"name": "pdf"})),
            calls(("fill_form", {"field": "1"}), ("write", {"text": "no"}), ("look", {})),
            calls(
                ("read_skill", {"name": "docx"}), ("read_skill", {"name": "pdf", "file": "../x"})
            ),
            call("write", text="yes"),
            say("Done."),
        ]

        def agent() -> Agent[None, str]:
            plugin = Skills(root, tools={"pdf": [fill]})
            return Agent("a", model=ScriptedModel(script), tools=[write, look], plugins=[plugin])

        async def run(rt: Runtime[Any]) -> TurnResult[Any]:
            return await rt.session("s").run("Go.", turn_id="t")

        def check(result: TurnResult[Any]) -> None:
            assert result.text == "Done."
            assert [one.outcome.status for one in result.tool_calls] == [
                "denied", "ok", "ok", "denied", "ok", "ok", "error", "ok",
            ]  # fmt: skip
            assert len(ran) == 1

        return Scenario(agents=agent, run=run, check=check)

    return make


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_whenever_the_process_dies_the_turn_is_the_same(store: StoreKind, root: Path) -> None:
    # On disk some of them are enough: what is different there is not what plugins do.
    report = await kill_everywhere(
        using_all(root), store=store, max_points=25 if store == "sqlite" else None
    )

    assert len(report.points) >= (25 if store == "sqlite" else 80)
    assert report.unknown == ()
