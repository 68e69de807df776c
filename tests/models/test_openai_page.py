"""The page on Chat Completions shows its dialects as they are."""

from __future__ import annotations

from pathlib import Path

from windlass.models.credentials import KEY_SOURCES
from windlass.models.openai_chat.dialects import DIALECTS

PAGE = (Path(__file__).parents[2] / "docs/models/openai.md").read_text(encoding="utf-8")


def row_of(name: str) -> list[str]:
    """Return a dialect as the table of `docs/models/openai.md` shows it."""
    row = DIALECTS[name]
    fields = ", ".join([f"`{field}`" for field in row.reasoning_fields])
    choice = "no" if not row.tool_choice else "yes" if row.required_word else "not `required`"
    shapes = {"json_object": "JSON, in words", "none": "in words"}
    shape = shapes.get(row.schema, "strict" if row.strict_schema else "schema")
    end = "`[DONE]`" if row.done_needed else "a reason or `[DONE]`"
    return [
        f"`{name}`",
        f"`{row.token_limit_field}`",
        "parts of `content`" if row.replay_field == "content" else fields,
        f"`{row.replay_field}`" if row.replay_field else "",
        choice,
        shape,
        end if row.done_is_enough else "a reason and `[DONE]`",
    ]


def test_the_page_shows_every_row_as_it_is() -> None:
    page = PAGE.partition("| dialect |")[2]
    lines = page.partition("\n\n")[0].splitlines()[2:]
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert shown == [row_of(name) for name in DIALECTS]


def test_the_pages_name_every_address_and_key() -> None:
    for name in set(DIALECTS) - {"generic", "openai"}:
        source = KEY_SOURCES[name]
        address = f"`{source.base_url}`" if source.base_url else f"in `{source.host_variable}`"
        key = "none" if source.is_free else f"`{source.variables[0]}`"
        assert f"| `{name}:` | Chat Completions | {address} | {key} |" in PAGE
