"""Bytes and digests that journals out there hold: written once, never changed.

`python -m scripts.golden` adds entries for new values.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from scripts import golden
from tests.golden_bytes import Golden
from tests.journal.golden_journal import GOLDEN as JOURNAL
from tests.kernel.golden_snapshots import GOLDEN as KERNEL
from tests.kernel.other_encoder import digested, encoded
from tests.ports.golden_ports import GOLDEN as PORTS
from windlass.kernel import Text, Value, canonical

TESTS = Path(__file__).parents[1]
PACKAGES = {
    "kernel": Golden("windlass.kernel", KERNEL, TESTS / "kernel" / "golden"),
    "journal": Golden("windlass.journal", JOURNAL, TESTS / "journal" / "golden"),
    "ports": Golden("windlass.ports", PORTS, TESTS / "ports" / "golden"),
}
ENTRIES = {
    f"{package}.{name}": (entry, known.values[name])
    for package, known in PACKAGES.items()
    for name, entry in known.entries.items()
}
# Of the ports only what is stored has golden bytes; the rest is told and forgotten.
WHOLE = ("kernel", "journal")


@pytest.mark.parametrize("name", ENTRIES)
def test_a_value_still_has_its_golden_bytes_and_digest(name: str) -> None:
    entry, value = ENTRIES[name]
    assert entry.bytes.encode() == canonical.encode(value)
    assert entry.digest == canonical.digest(value)


@pytest.mark.parametrize("name", ENTRIES)
def test_golden_bytes_still_decode_to_their_value(name: str) -> None:
    entry, value = ENTRIES[name]
    decoded = canonical.decode(entry.bytes.encode(), type(value))
    assert value == decoded
    assert entry.digest == canonical.digest(decoded)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_encoder_that_knows_only_the_rules_agrees(name: str) -> None:
    entry, _ = ENTRIES[name]
    document = json.loads(entry.bytes)
    assert encoded(document) == entry.bytes.encode()
    assert digested(document) == entry.digest


@pytest.mark.parametrize("package", PACKAGES)
def test_every_value_is_in_the_file_of_its_group_and_nothing_else_is(package: str) -> None:
    known = PACKAGES[package]
    in_files = {path.stem: list(golden.read(path)) for path in known.folder.glob("*.json")}
    assert {group: list(values) for group, values in known.groups.items()} == in_files


@pytest.mark.parametrize("package", PACKAGES)
def test_the_script_has_nothing_to_do(package: str) -> None:
    known = PACKAGES[package]
    before = {path: path.read_bytes() for path in known.folder.glob("*.json")}
    assert golden.main(known.groups, known.folder) == 0
    assert before == {path: path.read_bytes() for path in known.folder.glob("*.json")}


@pytest.mark.parametrize("package", WHOLE)
def test_every_value_class_has_a_golden_entry(package: str) -> None:
    known = PACKAGES[package]
    assert len(known.value_classes()) > 40
    assert known.without_golden(known.value_classes()) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_field_stands_in_some_golden_bytes(package: str) -> None:
    known = PACKAGES[package]
    kinds = known.value_classes() if package in WHOLE else set(map(type, known.values.values()))
    assert known.never_set(kinds) == []


def test_a_class_or_a_field_without_golden_bytes_is_noticed() -> None:
    class Newcomer(Value, kw_only=True):
        flag: bool = False

    assert PACKAGES["kernel"].without_golden({Text, Newcomer}) == ["Newcomer"]
    assert PACKAGES["kernel"].never_set({Text, Newcomer}) == ["Newcomer.flag"]


# --- equal values have equal bytes ---------------------------------------------------------------


def another(default: object) -> object:
    """Return an equal object that is not the same one, where there can be such."""
    if isinstance(default, str):
        return "".join(list(default))
    return msgspec.structs.replace(default) if isinstance(default, msgspec.Struct) else default


@pytest.mark.parametrize("name", [name for name in ENTRIES if name.endswith(".least")])
def test_a_default_given_by_hand_changes_no_byte(name: str) -> None:
    """Law 1 of `canonical`: equal values give equal bytes, whichever objects they are made of."""
    _, value = ENTRIES[name]
    fields = {field: another(getattr(value, field)) for field in value.__struct_fields__}
    same = type(value)(**fields)
    assert same == value
    assert canonical.encode(same) == canonical.encode(value)
