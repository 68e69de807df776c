"""How golden bytes stay: a class may grow by optional fields, and the script only ever adds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import windlass.kernel
from scripts import golden
from tests.kernel.golden_snapshots import VALUES
from windlass.kernel import Attachment, Text, Usage, Value, canonical

FOLDER = Path(__file__).parent / "golden"
ENTRIES = {
    name: entry
    for path in sorted(FOLDER.glob("*.json"))
    for name, entry in golden.read(path).items()
}


# --- a new optional field changes nothing --------------------------------------------------------

ADDED: list[tuple[str, Any, Any]] = [
    ("added_none", str | None, None),
    ("added_text", str, "plain"),
    ("added_count", int, 0),
    ("added_flag", bool, False),
    ("added_parts", tuple[Text, ...], ()),
    ("added_usage", Usage, Usage()),
]


def grown(kind: type[Value], added: list[tuple[str, Any, Any]] = ADDED) -> type[Value]:
    """Return the class as a later release may define it."""
    tag = kind.__struct_config__.tag
    later = msgspec.defstruct(kind.__name__, added, bases=(kind,), tag=tag, kw_only=True)
    assert issubclass(later, Value)
    return later


def as_grown(value: Value, kind: type[Value]) -> Value:
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    return kind(**fields)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_added_optional_field_changes_neither_bytes_nor_digest(name: str) -> None:
    later = as_grown(VALUES[name], grown(type(VALUES[name])))
    assert ENTRIES[name].bytes.encode() == canonical.encode(later)
    assert ENTRIES[name].digest == canonical.digest(later)


@pytest.mark.parametrize("name", ENTRIES)
def test_old_bytes_decode_as_the_grown_class(name: str) -> None:
    kind = grown(type(VALUES[name]))
    assert as_grown(VALUES[name], kind) == canonical.decode(ENTRIES[name].bytes.encode(), kind)


def test_an_added_field_without_a_default_or_a_changed_default_would_be_noticed() -> None:
    old = VALUES["Attachment.least"]
    golden_bytes = ENTRIES["Attachment.least"].bytes.encode()
    required = msgspec.defstruct(
        "Attachment", [("owner", str)], bases=(Attachment,), tag="attachment", kw_only=True
    )
    with pytest.raises(windlass.errors.InvalidInput, match="owner"):
        canonical.decode(golden_bytes, required)
    moved = grown(Attachment, [("media_type", str, "text/plain")])
    assert golden_bytes != canonical.encode(as_grown(old, moved))


# --- the script ----------------------------------------------------------------------------------


def test_the_script_adds_what_is_new_and_never_touches_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "parts.json"
    path.write_text('{"Text":{"bytes":"old","digest":"old"}}')
    assert golden.main({"parts": {"Text": Text(text="new")}}, tmp_path) == 1
    assert path.read_text() == '{"Text":{"bytes":"old","digest":"old"}}'
    values = {"Text": Text(text="new"), "Text.more": Text(text="more")}
    assert golden.main({"parts": values}, tmp_path) == 1
    assert json.loads(path.read_text()) == {
        "Text": {"bytes": "old", "digest": "old"},
        "Text.more": {
            "bytes": '{"text":"more","type":"text"}',
            "digest": "d4551701482fefeda235f7a783bbb057608ca643db76ce10e57ff2be4109deaf",
        },
    }


def test_the_script_reports_an_entry_whose_value_is_gone(tmp_path: Path) -> None:
    (tmp_path / "parts.json").write_text('{"Gone":{"bytes":"old","digest":"old"}}')
    assert golden.main({"parts": {}}, tmp_path) == 1
