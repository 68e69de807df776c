"""Skills whose files change, break or go away."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.skill_maker import make_skill
from tests.plugins.skilled_turn import HEAD, after, begun, brief, may_call, read
from windlass import ToolError
from windlass.kernel import canonical
from windlass.kernel.outcomes import Finished
from windlass.plugins import skill
from windlass.plugins.skill import read_skill
from windlass.plugins.skills import Skills
from windlass.ports.directives import Finale


async def test_a_change_is_told_in_the_next_turn_and_not_in_this_one(tmp_path: Path) -> None:
    make_skill(tmp_path, "pdf", description="Old.")
    plugin = Skills(tmp_path)
    turn = await begun(plugin)
    make_skill(tmp_path, "pdf", description="New.")
    make_skill(tmp_path, "docx", description="Also new.")

    assert await brief(plugin, turn) == HEAD + "- pdf: Old."
    assert await brief(Skills(tmp_path), turn) == HEAD + "- pdf: Old."
    turn = await begun(plugin, turn.host)
    assert await brief(plugin, turn) == HEAD + "- docx: Also new.\n- pdf: New."


async def test_a_skill_that_changed_in_mid_turn_is_read_as_it_is_now_and_the_host_is_told(
    tmp_path: Path,
) -> None:
    make_skill(tmp_path, "pdf", body="old body")
    plugin = Skills(tmp_path)
    turn = await begun(plugin)
    make_skill(tmp_path, "pdf", "allowed-tools: Read", body="new body")

    assert "new body" in await read(plugin, "pdf")
    await after(plugin, turn, name="pdf")

    assert await may_call(plugin, turn, "Write") is not None
    assert [(name, data["skill"]) for _, name, data in turn.host.emitted] == [
        ("skill_changed", "pdf")
    ]
    assert await plugin.after_turn(turn, Finished(text="")) == Finale(
        issues=["skill pdf: SKILL.md changed while the turn ran, and the newer one was read"]
    )


async def test_a_skill_that_stayed_as_it_was_is_not_told(tmp_path: Path) -> None:
    make_skill(tmp_path, "pdf")
    plugin = Skills(tmp_path)
    turn = await begun(plugin)
    await after(plugin, turn, name="pdf")

    assert turn.host.emitted == []
    assert await plugin.after_turn(turn, Finished(text="")) is None


async def test_a_skill_that_breaks_in_mid_turn_is_refused_with_its_line(tmp_path: Path) -> None:
    folder = make_skill(tmp_path, "pdf")
    plugin = Skills(tmp_path)
    (folder / "SKILL.md").write_text("---\nname: pdf\n\tx: y\n---\n", encoding="utf-8")

    with pytest.raises(ToolError) as caught:
        await read(plugin, "pdf")

    assert str(caught.value) == (
        "SKILL.md: line 3: found a tab at the start, wanted spaces. The skill pdf cannot be used now."
    )


async def test_what_did_not_change_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        make_skill(tmp_path, name)
    plugin = Skills(tmp_path)
    read_again: list[str] = []

    def noting(data: bytes, *, folder: str) -> Any:  # noqa: ANN401 - what the real one gives
        read_again.append(folder)
        return read_skill(data, folder=folder)

    monkeypatch.setattr(skill, "read_skill", noting)
    await begun(plugin)
    make_skill(tmp_path, "b", body="changed")
    await begun(plugin)
    await begun(plugin)

    assert read_again == ["b"]


# ------------------------------------------------------------------------------------- broken skills


async def test_a_broken_skill_is_left_out_and_named_and_the_others_stay(tmp_path: Path) -> None:
    make_skill(tmp_path, "good")
    bad = make_skill(tmp_path, "bad")
    (bad / "SKILL.md").write_text("---\nname: bad\ndescription: &x y\n---\n", encoding="utf-8")
    make_skill(tmp_path, "linked")
    (tmp_path / "linked" / "SKILL.md").unlink()
    (tmp_path / "linked" / "SKILL.md").symlink_to(tmp_path / "good" / "SKILL.md")
    plugin = Skills(tmp_path)
    turn = await begun(plugin)

    assert await brief(plugin, turn) == HEAD + "- good: What good is for."
    reason = "found description beginning with &, wanted text"
    assert turn.host.emitted == [
        (
            "skills",
            "skill_left_out",
            {"file": f"{tmp_path}/bad/SKILL.md", "line": 3, "reason": reason},
        ),
        (
            "skills",
            "skill_left_out",
            {
                "file": f"{tmp_path}/linked/SKILL.md",
                "line": None,
                "reason": "found a symbolic link, which is not followed",
            },
        ),
    ]
    assert plugin.left_out[0] == f"{tmp_path}/bad/SKILL.md:3: {reason}"
    assert await plugin.after_turn(turn, Finished(text="")) == Finale(
        issues=[f"skill left out: {one}" for one in plugin.left_out]
    )
    with pytest.raises(ToolError, match="there are: good"):
        await read(plugin, "bad")


async def test_of_two_skills_with_one_name_the_first_is_used(tmp_path: Path) -> None:
    make_skill(tmp_path / "a", "pdf", body="first")
    make_skill(tmp_path / "b", "pdf", body="second")
    plugin = Skills(tmp_path / "a", tmp_path / "b")

    assert "first" in await read(plugin, "pdf")
    assert plugin.left_out == (
        f"{tmp_path}/b/pdf/SKILL.md: found a second skill of this name, the first one is used",
    )


async def test_a_folder_that_goes_away_takes_only_its_own_skills_along(tmp_path: Path) -> None:
    make_skill(tmp_path / "a", "pdf")
    make_skill(tmp_path / "b", "docx")
    plugin = Skills(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "away")
    turn = await begun(plugin)

    assert await brief(plugin, turn) == HEAD + "- docx: What docx is for."
    assert plugin.left_out == (f"{tmp_path}/a: found no folder that can be read",)


async def test_a_link_to_a_skill_elsewhere_is_left_out_and_named(tmp_path: Path) -> None:
    make_skill(tmp_path / "elsewhere", "pdf")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "pdf").symlink_to(tmp_path / "elsewhere" / "pdf")
    plugin = Skills(tmp_path / "skills")

    assert await plugin.prompt(await begun(plugin)) == ()
    assert plugin.left_out == (
        f"{tmp_path}/skills/pdf: found a symbolic link, which is not followed",
    )


async def test_of_many_broken_skills_ten_are_told(tmp_path: Path) -> None:
    for n in range(12):
        make_skill(tmp_path, f"s{n:02}", "\tx: y")
    plugin = Skills(tmp_path)
    turn = await begun(plugin)
    said = await plugin.after_turn(turn, Finished(text=""))

    assert len(turn.host.emitted) == 10
    assert said is not None
    assert len(said.issues) == 11
    assert said.issues[-1] == "skill left out: and 2 more"


async def test_a_path_that_is_no_text_breaks_no_turn(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff"))
    make_skill(odd, "pdf", "\tx: y")
    plugin = Skills(odd)
    turn = await begun(plugin)

    assert plugin.left_out[0].endswith(
        "/odd\\udcff/pdf/SKILL.md:4: found a tab at the start, wanted spaces"
    )
    canonical.encode(turn.host.states["skills"])
