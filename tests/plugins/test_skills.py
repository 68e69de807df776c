"""Skills, hook by hook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plugins.fake_turn import FakeHost, FakeTurn
from tests.plugins.skill_maker import make_skill
from tests.plugins.skilled_turn import HEAD, after, begun, brief, may_call, read
from windlass import ToolContext, ToolError, tool
from windlass.errors import ConfigError
from windlass.kernel import canonical
from windlass.kernel.messages import Attachment, Text
from windlass.plugins.skills import Skills
from windlass.ports.prompt import Contribution

FIXTURES = Path(__file__).parent / "skills"


@tool(effect="pure")
def fill_form(field: str) -> str:
    """Fill a form."""
    return field


@tool(effect="pure")
def rotate() -> str:
    """Rotate a page."""
    return "rotated"


# ------------------------------------------------------------------------------------- briefs


async def test_briefs_stand_in_the_order_of_names_and_wait_for_the_tool(tmp_path: Path) -> None:
    make_skill(tmp_path, "xlsx", description="Sheets.")
    make_skill(tmp_path, "docx", description="Letters.")
    plugin = Skills(tmp_path)
    turn = await begun(plugin)

    assert await plugin.prompt(turn) == (
        Contribution(
            HEAD + "- docx: Letters.\n- xlsx: Sheets.",
            slot="guidance",
            title="Skills",
            gate=("read_skill",),
        ),
    )


async def test_without_skills_there_is_no_brief(tmp_path: Path) -> None:
    plugin = Skills(tmp_path)

    assert await plugin.prompt(await begun(plugin)) == ()


async def test_a_turn_that_began_without_the_look_has_it_at_its_first_prompt(
    tmp_path: Path,
) -> None:
    make_skill(tmp_path, "pdf", description="Old.")
    plugin, turn = Skills(tmp_path), FakeTurn("skills")
    first = await brief(plugin, turn)
    make_skill(tmp_path, "pdf", description="New.")

    assert first == HEAD + "- pdf: Old."
    assert await brief(plugin, turn) == first


async def test_a_folder_may_be_one_skill_and_folders_may_be_mixed(tmp_path: Path) -> None:
    one = make_skill(tmp_path / "a", "pdf")
    make_skill(tmp_path / "b", "docx")
    plugin = Skills(one, tmp_path / "b")

    assert await brief(plugin, await begun(plugin)) == (
        HEAD + "- docx: What docx is for.\n- pdf: What pdf is for."
    )
    assert "Do it well." in await read(plugin, "pdf")


async def test_only_enabled_skills_are_told_and_read(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        make_skill(tmp_path, name)
    chosen = Skills(tmp_path, enabled=["a", "b"], disabled=["b"])

    assert await brief(chosen, await begun(chosen)) == HEAD + "- a: What a is for."
    with pytest.raises(ToolError, match=r"found no skill b; there are: a$"):
        await read(chosen, "b")


async def test_briefs_that_would_be_too_much_are_shortened_alike(tmp_path: Path) -> None:
    for n in range(200):
        make_skill(tmp_path, f"s{n:03}", description='"' + "\N{GRINNING FACE}" * 1000 + '"')
    plugin = Skills(tmp_path)
    turn = await begun(plugin)
    text = await brief(plugin, turn)

    lines = text.removeprefix(HEAD).splitlines()
    assert len(lines) == 200
    assert {len(line) for line in lines} == {len(lines[0])}
    assert lines[0].endswith("…")
    assert len(canonical.encode(text)) <= 32 * 1024
    # A hook may write down 64 KiB.
    assert len(canonical.encode(turn.host.states["skills"])) <= 64 * 1024


async def test_more_than_200_skills_are_left_out_and_said_so(tmp_path: Path) -> None:
    for n in range(203):
        make_skill(tmp_path, f"s{n:03}")
    plugin = Skills(tmp_path)
    text = await brief(plugin, await begun(plugin))

    assert text.endswith("- s199: What s199 is for.")
    assert plugin.left_out == tuple(
        f"{tmp_path}/s{n}/SKILL.md: found more than 200 skills" for n in (200, 201, 202)
    )


async def test_the_skills_of_the_test_folder_work_as_they_are() -> None:
    plugin = Skills(FIXTURES)

    assert plugin.left_out == ()
    assert await brief(plugin, await begun(plugin)) == (
        HEAD + "- meeting-minutes: Turns notes or a transcript of a meeting into minutes with decisions and "
        'actions. Use when the user asks for minutes, a summary of a meeting, or "who does what by when". Not '
        "for interviews: those stay word for word.\n- release-notes: Writes release notes from commits. It's "
        "for users, not for developers: say what changed for them."
    )  # fmt: skip
    assert plugin.notes == (
        "meeting-minutes: line 14: metadata.tags is left out: found a list or keys for tags, wanted text",
        "release-notes: line 7: argument-hint is ignored",
        "release-notes: line 8: user-invocable is ignored",
        "release-notes: line 9: hooks is ignored",
    )


# ------------------------------------------------------------------------------------- reading


async def test_a_skill_is_read_without_its_front_matter_and_with_its_files() -> None:
    text = await read(Skills(FIXTURES), "meeting-minutes")

    lines = text.splitlines()
    assert lines[0].startswith("Skill meeting-minutes, revision ")
    assert lines[2] == "# Meeting minutes"
    assert "A line of dashes in the text is text." in lines
    assert "description:" not in text
    assert lines[-5:] == [
        "",
        'Files of this skill, for read_skill(name="meeting-minutes", file=…):',
        "- assets/head.png (67 bytes)",
        "- references/form.md (90 bytes)",
        "- scripts/due.sh (129 bytes)",
    ]


async def test_the_tool_reads_only_and_has_two_arguments() -> None:
    reader = Skills(FIXTURES, tool_name="open_skill").tools()[0]

    assert (reader.spec.name, reader.effect) == ("open_skill", "pure")
    assert list(reader.spec.parameters["properties"]) == ["name", "file"]
    assert reader.spec.parameters["required"] == ["name"]


async def test_another_file_is_read_as_text() -> None:
    text = await read(Skills(FIXTURES), "meeting-minutes", "references/form.md")

    assert text.startswith("# The form\n")


async def test_an_image_is_attached(tmp_path: Path) -> None:
    host = FakeHost()

    class Behind:
        is_cancelled = False

        async def attach(self, data: bytes, media_type: str, name: str | None) -> Attachment:
            return await host.attach(data, media_type, name)

    reader = Skills(FIXTURES).tools()[0]
    said = await reader.run(
        ToolContext(deps=None, host=Behind()),  # type: ignore[arg-type]  # what is needed of it
        {"name": "meeting-minutes", "file": "assets/head.png"},
    )

    assert isinstance(said, list)
    text, image = said
    assert text == Text(text="assets/head.png: image/png, 67 bytes")
    assert (image.media_type, image.name, image.n_bytes) == ("image/png", "head.png", 67)
    assert host.blobs[image.ref].startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"abc\xffdef", "(f is not text: 7 bytes, not UTF-8 from byte 3 on)"),
        (b"%PDF-1.7\n\x00\x01", "(f is not text: 11 bytes, with NUL among them)"),
        (b"", "(f is empty)"),
    ],
)
async def test_what_is_no_text_is_told_with_its_size(
    tmp_path: Path, data: bytes, wanted: str
) -> None:
    make_skill(tmp_path, "pdf", files={"f": data})

    assert await read(Skills(tmp_path), "pdf", "f") == wanted


async def test_no_file_is_larger_than_the_limit(tmp_path: Path) -> None:
    make_skill(tmp_path, "pdf", files={"f": "x" * 200, "g": "x" * 201})
    plugin = Skills(tmp_path, max_file_bytes=200)

    assert await read(plugin, "pdf", "f") == "x" * 200
    with pytest.raises(ToolError, match="g: found 201 bytes, the limit is 200"):
        await read(plugin, "pdf", "g")


@pytest.mark.parametrize("name", ["nope", "../pdf", "", "pdf/../docx", "/", "pdf\n"])
async def test_a_name_that_is_no_skill_is_answered_with_those_that_are(
    tmp_path: Path, name: str
) -> None:
    for one in ("pdf", "docx"):
        make_skill(tmp_path, one)

    with pytest.raises(ToolError, match=r"name: found no skill .*; there are: docx, pdf$"):
        await read(Skills(tmp_path), name)


# ------------------------------------------------------------------------------------- tools of skills


async def test_a_tool_of_a_skill_waits_until_its_skill_was_read(tmp_path: Path) -> None:
    make_skill(tmp_path, "pdf")
    plugin = Skills(tmp_path, tools={"pdf": [fill_form]})
    turn = await begun(plugin)
    reason = 'fill_form belongs to the skill pdf. Read that first: read_skill(name="pdf")'

    assert [each.spec.name for each in plugin.tools()] == ["read_skill", "fill_form"]
    assert "Tools of this skill: fill_form" in await read(plugin, "pdf")
    assert await may_call(plugin, turn, "fill_form") == reason
    await after(plugin, turn, status="error", name="pdf")
    assert await may_call(plugin, turn, "fill_form") == reason
    await after(plugin, turn, name="pdf", file="references/guide.md")
    assert await may_call(plugin, turn, "fill_form") == reason
    await after(plugin, turn, name="pdf", file="./SKILL.md")
    assert await may_call(plugin, turn, "fill_form") is None
    assert await may_call(plugin, turn, "anything_else") is None


async def test_a_skill_that_was_read_is_remembered_over_turns_and_by_another_instance(
    tmp_path: Path,
) -> None:
    make_skill(tmp_path, "pdf")
    first = Skills(tmp_path, tools={"pdf": [fill_form]})
    turn = await begun(first)
    await after(first, turn, name="pdf")

    second = Skills(tmp_path, tools={"pdf": [fill_form]})
    again = await begun(second, turn.host)

    assert again.state.get("opened") is None
    assert await may_call(second, again, "fill_form") is None


async def test_a_tool_of_a_skill_that_is_gone_is_denied_and_to_be_read_again_when_it_is_back(
    tmp_path: Path,
) -> None:
    make_skill(tmp_path, "docx")
    folder = make_skill(tmp_path, "pdf")
    plugin = Skills(tmp_path, tools={"pdf": [fill_form]})
    turn = await begun(plugin)
    await after(plugin, turn, name="pdf")
    text = (folder / "SKILL.md").read_text(encoding="utf-8")

    (folder / "SKILL.md").unlink()
    turn = await begun(plugin, turn.host)
    assert await may_call(plugin, turn, "fill_form") == (
        "fill_form belongs to the skill pdf, which is not there now."
    )
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    turn = await begun(plugin, turn.host)
    assert "Read that first" in str(await may_call(plugin, turn, "fill_form"))


async def test_a_tool_of_two_skills_needs_one_of_them(tmp_path: Path) -> None:
    for name in ("pdf", "docx"):
        make_skill(tmp_path, name)
    plugin = Skills(tmp_path, tools={"pdf": [rotate], "docx": [rotate, fill_form]})
    turn = await begun(plugin)
    await after(plugin, turn, name="docx")

    assert [each.spec.name for each in plugin.tools()] == ["read_skill", "rotate", "fill_form"]
    assert await may_call(plugin, turn, "rotate") is None


# ------------------------------------------------------------------------------------- allowed-tools


async def test_the_skill_that_was_read_last_says_which_tools_are_allowed(tmp_path: Path) -> None:
    make_skill(tmp_path, "git", "allowed-tools: Bash(git:*), Read")
    make_skill(tmp_path, "free")
    plugin = Skills(tmp_path, tools={"git": [rotate]})
    turn = await begun(plugin)
    assert await may_call(plugin, turn, "Write") is None

    await after(plugin, turn, name="git")
    assert await may_call(plugin, turn, "Write") == (
        "Write is not among the tools that the skill git, which was read last, allows: Bash, Read"
    )
    for name in ("Bash", "Read", "read_skill", "rotate", "find_tools", "read_output"):
        assert await may_call(plugin, turn, name) is None
    assert await may_call(plugin, turn, "bash") is not None

    await after(plugin, turn, name="free")
    assert await may_call(plugin, turn, "Write") is None


async def test_what_a_skill_allows_ends_with_the_turn(tmp_path: Path) -> None:
    make_skill(tmp_path, "git", "allowed-tools: []")
    plugin = Skills(tmp_path)
    turn = await begun(plugin)
    await after(plugin, turn, name="git")
    assert "allows: none" in str(await may_call(plugin, turn, "Write"))

    assert await may_call(plugin, await begun(plugin, turn.host), "Write") is None


async def test_what_a_skill_allows_may_be_left_to_the_policy(tmp_path: Path) -> None:
    make_skill(tmp_path, "git", "allowed-tools: Read")
    plugin = Skills(tmp_path, enforce_allowed_tools=False)
    turn = await begun(plugin)
    await after(plugin, turn, name="git")

    assert await may_call(plugin, turn, "Write") is None
    assert "may be called" not in await read(plugin, "git")
    assert "may be called in this turn from now on: Read" in await read(Skills(tmp_path), "git")


# ------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "field", "words"),
    [
        ({"tool_name": "read skill"}, "tool_name", "wanted a letter or _"),
        ({"tool_name": 7}, "tool_name", "wanted a letter or _"),
        ({"enabled": "pdf"}, "enabled", "found str, wanted names of skills"),
        ({"enabled": ["pdf", "nope"]}, "enabled", "found nope, which is in no folder, wanted one of: pdf"),
        ({"enabled": ["../pdf"]}, "enabled[0]", "wanted the name of a skill"),
        ({"disabled": ["typo"]}, "disabled", "found typo, which is in no folder"),
        ({"disabled": 3}, "disabled", "found 3"),
        ({"tools": [fill_form]}, "tools", "found list"),
        ({"tools": {"typo": [fill_form]}}, "tools", "found typo, which is in no folder"),
        ({"tools": {"pdf": [len]}}, "tools[pdf][0]", "found len, wanted a tool"),
        ({"tools": {"pdf": fill_form}}, "tools[pdf]", "wanted a list of tools"),
        ({"tools": {"pdf": [rotate]}, "tool_name": "rotate"}, "tools[1]", "a second tool named rotate"),
        ({"max_file_bytes": 0}, "max_file_bytes", "found 0, wanted a whole number of bytes"),
        ({"max_file_bytes": True}, "max_file_bytes", "found bool"),
        ({"max_file_bytes": 64 * 1024 * 1024 + 1}, "max_file_bytes", "from 1 to 67,108,864"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused_by_name(
    tmp_path: Path, options: dict[str, Any], field: str, words: str
) -> None:
    make_skill(tmp_path, "pdf")
    with pytest.raises(ConfigError) as caught:
        Skills(tmp_path, **options)

    assert caught.value.field == field
    assert words in str(caught.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for given, field in ((tmp_path / "nope", "folders[0]"), (tmp_path / "file", "folders[0]")):
        with pytest.raises(ConfigError, match="found no folder") as caught:
            Skills(given)
        assert caught.value.field == field
    with pytest.raises(ConfigError, match="folders: found none"):
        Skills()
    with pytest.raises(ConfigError, match=r"folders\[1\]: found int"):
        Skills(tmp_path, 7)  # type: ignore[arg-type]


def test_a_deferred_tool_of_a_skill_brings_no_tool_of_its_own(tmp_path: Path) -> None:
    make_skill(tmp_path, "pdf")
    later = tool(fill_form.__wrapped__, expose="deferred")

    names = [each.spec.name for each in Skills(tmp_path, tools={"pdf": [later]}).tools()]
    assert names == ["read_skill", "fill_form"]
