"""Files of recordings: whole or not there, the owner's alone, without secrets; and what is not a recording."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.recorded_scenes import FOLDER
from windlass.errors import (
    FormatUnsupported,
    GuardError,
    InvalidInput,
    LimitExceeded,
    WindlassError,
)
from windlass.guards.secret import Secret
from windlass.models import recording
from windlass.testing import Recording, read_recording, replay_recording, write_recording


def a_recording() -> Recording:
    return read_recording(FOLDER / "anthropic-text.json")


def test_a_file_is_its_owners_alone_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "made.json"
    size = write_recording(a_recording(), file)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["made.json"]
    assert size == len(file.read_bytes())
    assert file.read_bytes() == (FOLDER / "anthropic-text.json").read_bytes()


def test_another_file_is_replaced_only_if_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "made.json"
    file.write_text("mine")
    with pytest.raises(InvalidInput, match=r"out: found .*made.json, which exists"):
        write_recording(a_recording(), file)

    assert file.read_text() == "mine"
    write_recording(a_recording(), file, force=True)
    assert read_recording(file) == a_recording()
    assert [each.name for each in tmp_path.iterdir()] == ["made.json"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="out: found no folder"):
        write_recording(a_recording(), tmp_path / "none" / "made.json")


@pytest.mark.parametrize(
    "secret", ["You use [api_key]", "your address is [email] and no other", "claude-sonnet-4-5"]
)
def test_a_file_with_a_secret_or_a_part_of_it_is_deleted(secret: str, tmp_path: Path) -> None:
    file = tmp_path / "made.json"
    with pytest.raises(GuardError, match="recording: found MY_TOKEN") as raised:
        write_recording(a_recording(), file, secrets=[Secret(secret, name="MY_TOKEN")])

    assert secret not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda whole: b"not JSON", "file"),
        (lambda whole: b"[]", "file"),
        (lambda whole: b"{}", "file"),
        (lambda whole: b"\xff\xfe", "file"),
        (lambda whole: whole.replace(b'"format": 1', b'"format": "1"'), "format"),
        (lambda whole: whole.replace(b'"status": 200', b'"status": "200"'), "exchanges[0].response.status"),
        (lambda whole: whole.replace(b'"reply": {', b'"replies": {'), "reply"),
    ],
)  # fmt: skip
def test_what_is_not_a_recording_is_refused_by_its_field(
    change: Callable[[bytes], bytes], field: str, tmp_path: Path
) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(change((FOLDER / "anthropic-text.json").read_bytes()))
    with pytest.raises(InvalidInput) as raised:
        read_recording(file)

    assert raised.value.field == field


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "later.json"
    file.write_bytes(b'{"format": 2, "all": "else may be different"}')
    with pytest.raises(FormatUnsupported, match="format: found 2, wanted 1"):
        read_recording(file)


def test_a_file_that_is_too_large_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAX_FILE_BYTES", 100)
    file = tmp_path / "large.json"
    file.write_bytes(b" " * 101)
    with pytest.raises(LimitExceeded) as raised:
        read_recording(file)

    assert (raised.value.field, raised.value.wanted) == ("file", 100)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"file: .*none.json: No such file"):
        read_recording(tmp_path / "none.json")


def test_a_file_that_appears_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "made.json"
    looked: list[Path] = []

    def look(path: Path) -> None:
        if not looked:  # the first look finds nothing, then somebody writes
            looked.append(path)
            file.write_text("theirs")
            return
        raise InvalidInput.at("out", "a file", "none")

    monkeypatch.setattr(recording, "check_free", look)
    with pytest.raises(InvalidInput):
        write_recording(a_recording(), file)

    assert file.read_text() == "theirs"
    assert [each.name for each in tmp_path.iterdir()] == ["made.json"]


def test_an_interrupt_while_it_is_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_args: object, **_more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recording, "check_clean", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_recording(a_recording(), tmp_path / "made.json")

    assert list(tmp_path.iterdir()) == []


def places_in(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inside: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value[:2]))
    return [path, *(found for key, item in inside for found in places_in(item, (*path, key)))]


def with_other(whole: object, path: tuple[str | int, ...], other: object) -> object:
    if not path:
        return other
    key, rest = path[0], path[1:]
    if isinstance(whole, dict):
        return {**whole, key: with_other(whole[key], rest, other)}
    assert isinstance(whole, list)
    return [with_other(item, rest, other) if at == key else item for at, item in enumerate(whole)]


OTHERS: tuple[object, ...] = (
    None,
    -1,
    10**30,
    "x",
    "local",
    "\x00",
    "http://user:pw@host",
    [],
    {},
    [[]] * 3,
    {"a": 1},
)


@pytest.mark.parametrize("name", ["anthropic-throttled", "openai-chat-tools"])
async def test_a_file_of_a_stranger_is_read_or_refused_and_nothing_else(name: str) -> None:
    """Every place of a recording holds something else once: an answer or an error of windlass, never another."""
    whole = json.loads((FOLDER / f"{name}.json").read_bytes())
    n_refused = 0
    for path in places_in(whole):
        for other in OTHERS:
            data = json.dumps(with_other(whole, path, other)).encode()
            try:
                await replay_recording(recording.recording_in(data))
            except WindlassError:
                n_refused += 1

    assert n_refused > len(OTHERS)


async def test_an_answer_in_a_file_is_not_unpacked() -> None:
    """A header of a stranger's file could make a few bytes many."""
    whole = json.loads((FOLDER / "anthropic-text.json").read_bytes())
    whole["exchanges"][0]["response"]["headers"]["content-encoding"] = "gzip"

    assert (await replay_recording(recording.recording_in(json.dumps(whole).encode()))).is_same
