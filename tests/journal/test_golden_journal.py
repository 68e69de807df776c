"""Bytes and digests that journals out there hold: written once, never changed.

`python -m scripts.golden` adds entries for new values.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import windlass.journal
from scripts import golden
from tests.journal.golden_journal import GOLDEN, VALUES
from tests.kernel.other_encoder import digested, encoded
from windlass.journal import Busy, Run
from windlass.kernel import Value, canonical

FOLDER = Path(__file__).parent / "golden"
ENTRIES = {
    name: entry
    for path in sorted(FOLDER.glob("*.json"))
    for name, entry in golden.read(path).items()
}


@pytest.mark.parametrize("name", ENTRIES)
def test_a_value_still_has_its_golden_bytes_and_digest(name: str) -> None:
    assert ENTRIES[name].bytes.encode() == canonical.encode(VALUES[name])
    assert ENTRIES[name].digest == canonical.digest(VALUES[name])


@pytest.mark.parametrize("name", ENTRIES)
def test_golden_bytes_still_decode_to_their_value(name: str) -> None:
    decoded = canonical.decode(ENTRIES[name].bytes.encode(), type(VALUES[name]))
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


def test_the_script_has_nothing_to_do() -> None:
    before = {path: path.read_bytes() for path in FOLDER.glob("*.json")}
    assert golden.main(GOLDEN, FOLDER) == 0
    assert before == {path: path.read_bytes() for path in FOLDER.glob("*.json")}


# --- nothing is left out -------------------------------------------------------------------------


def value_classes(base: type[Value] = Value) -> Iterator[type[Value]]:
    for module in pkgutil.iter_modules(windlass.journal.__path__, "windlass.journal."):
        importlib.import_module(module.name)
    for kind in base.__subclasses__():
        if kind.__module__.startswith("windlass.journal.") and not kind.__name__.startswith("_"):
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


def test_every_value_class_of_the_journal_has_a_golden_entry() -> None:
    kinds = set(value_classes())
    assert {Run, Busy} < kinds
    assert without_golden(kinds) == []


def test_every_field_stands_in_some_golden_bytes() -> None:
    assert never_set(set(value_classes())) == []


def test_every_value_class_is_public() -> None:
    assert [
        kind.__name__ for kind in value_classes() if kind.__name__ not in windlass.journal.__all__
    ] == []


def test_no_two_classes_have_one_tag() -> None:
    tags = [kind.__struct_config__.tag for kind in value_classes()]
    assert len(tags) == len(set(tags))


def test_a_class_or_a_field_without_golden_bytes_is_noticed() -> None:
    class Newcomer(Value, kw_only=True):
        flag: bool = False

    assert without_golden({Run, Newcomer}) == ["Newcomer"]
    assert never_set({Run, Newcomer}) == ["Newcomer.flag"]


# --- equal values have equal bytes ---------------------------------------------------------------


def another(default: object) -> object:
    """Return an equal object that is not the same one, where there can be such."""
    if isinstance(default, str):
        return "".join(list(default))
    return msgspec.structs.replace(default) if isinstance(default, msgspec.Struct) else default


@pytest.mark.parametrize("name", [name for name in VALUES if name.endswith(".least")])
def test_a_default_given_by_hand_changes_no_byte(name: str) -> None:
    """Law 1 of `canonical`: equal values give equal bytes, whichever objects they are made of."""
    value = VALUES[name]
    fields = {field: another(getattr(value, field)) for field in value.__struct_fields__}
    same = type(value)(**fields)
    assert same == value
    assert canonical.encode(same) == canonical.encode(value)
