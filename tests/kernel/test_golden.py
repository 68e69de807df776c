"""Bytes and digests that journals out there hold: written once, never changed.

`python -m scripts.golden` adds entries for new values.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import windlass.kernel
from scripts import golden
from tests.kernel.golden_snapshots import GOLDEN, VALUES
from tests.kernel.other_encoder import digested, encoded
from windlass.kernel import Attachment, Text, Usage, Value, canonical
from windlass.kernel.value import JsonValue

FOLDER = Path(__file__).parent / "golden"
ENTRIES = {
    name: entry
    for path in sorted(FOLDER.glob("*.json"))
    for name, entry in golden.read(path).items()
}


# --- the files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENTRIES)
def test_a_value_still_has_its_golden_bytes_and_digest(name: str) -> None:
    assert ENTRIES[name].bytes.encode() == canonical.encode(VALUES[name])
    assert ENTRIES[name].digest == canonical.digest(VALUES[name])


@pytest.mark.parametrize("name", ENTRIES)
def test_golden_bytes_still_decode_to_their_value(name: str) -> None:
    kind = type(VALUES[name])
    decoded = canonical.decode(ENTRIES[name].bytes.encode(), kind)
    assert VALUES[name] == decoded
    assert ENTRIES[name].digest == canonical.digest(decoded)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_encoder_that_knows_only_the_rules_agrees(name: str) -> None:
    document = json.loads(ENTRIES[name].bytes)
    assert encoded(document) == ENTRIES[name].bytes.encode()
    assert digested(document) == ENTRIES[name].digest


def test_every_value_is_in_the_file_of_its_group_and_nothing_else_is() -> None:
    in_files = {path.stem: list(golden.read(path)) for path in FOLDER.glob("*.json")}
    assert {group: list(values) for group, values in GOLDEN.items()} == in_files


# --- nothing is left out -------------------------------------------------------------------------


def value_classes(base: type[Value] = Value) -> Iterator[type[Value]]:
    for module in pkgutil.iter_modules(windlass.kernel.__path__, "windlass.kernel."):
        importlib.import_module(module.name)
    for kind in base.__subclasses__():
        if kind.__module__.startswith("windlass.kernel."):
            if not kind.__name__.startswith("_") and kind is not JsonValue:
                yield kind
            yield from value_classes(kind)


def without_golden(kinds: set[type[Value]]) -> list[str]:
    return sorted(kind.__name__ for kind in kinds - {type(value) for value in VALUES.values()})


def never_set(kinds: set[type[Value]]) -> list[str]:
    """Return the fields that hold their default in every golden value."""
    fields = {f"{kind.__name__}.{field}" for kind in kinds for field in kind.__struct_fields__}
    for name, entry in ENTRIES.items():
        kind = type(VALUES[name])
        fields -= {f"{kind.__name__}.{field}" for field in json.loads(entry.bytes)}
    return sorted(fields)


def test_every_value_class_of_the_kernel_has_a_golden_entry() -> None:
    assert without_golden(set(value_classes())) == []


def test_every_field_stands_in_some_golden_bytes() -> None:
    assert never_set(set(value_classes())) == []


def test_a_class_or_a_field_without_golden_bytes_is_noticed() -> None:
    class Newcomer(Value, kw_only=True):
        flag: bool = False

    assert without_golden({Text, Newcomer}) == ["Newcomer"]
    assert never_set({Text, Newcomer}) == ["Newcomer.flag"]


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


def test_the_script_has_nothing_to_do(tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in FOLDER.glob("*.json")}
    assert golden.main(GOLDEN, FOLDER) == 0
    assert before == {path: path.read_bytes() for path in FOLDER.glob("*.json")}
