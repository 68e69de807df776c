"""`canonical.read` reads what a digest has vouched for: it trusts the spelling and nothing else."""

from __future__ import annotations

import pytest

from tests.kernel.golden_snapshots import VALUES as SNAPSHOTS
from windlass.errors import FormatUnsupported, InvalidInput
from windlass.kernel import Message, Text, TurnSnapshot, canonical
from windlass.kernel.value import Value

SNAPSHOT = canonical.encode(
    next(value for value in SNAPSHOTS.values() if isinstance(value, TurnSnapshot))
)


def test_it_reads_what_encode_wrote() -> None:
    message = Message(id="m1", role="user", parts=(Text(text="hi"),))

    assert canonical.read(canonical.encode(message), Message) == message


def test_it_does_not_look_at_the_spelling() -> None:
    spelled = b'{"text": "hi", "type": "text"}'

    assert canonical.read(spelled, Text) == Text(text="hi")


def test_what_is_no_such_value_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidInput) as refusal:
        canonical.read(b'{"text":7,"type":"text"}', Text)

    assert refusal.value.field == "$.text"


def test_a_snapshot_is_read() -> None:
    assert canonical.encode(canonical.read(SNAPSHOT, TurnSnapshot)) == SNAPSHOT


def test_a_newer_format_that_still_decodes_is_refused_by_its_format() -> None:
    newer = SNAPSHOT.replace(b'"format":1', b'"format":2')
    assert newer != SNAPSHOT

    with pytest.raises(FormatUnsupported):
        canonical.read(newer, TurnSnapshot)


def test_a_newer_format_that_does_not_decode_is_refused_by_its_format() -> None:
    newer = b'{"format":2,"shape":"round","type":"turn_snapshot"}'

    with pytest.raises(FormatUnsupported):
        canonical.read(newer, TurnSnapshot)


def test_a_known_format_that_does_not_decode_is_refused_by_its_place() -> None:
    with pytest.raises(InvalidInput):
        canonical.read(b'{"format":1,"shape":"round","type":"turn_snapshot"}', TurnSnapshot)


def test_a_decoder_can_be_made_before_threads_need_it() -> None:
    class Fresh(Value, kw_only=True):
        name: str

    assert Fresh not in canonical._DECODERS
    canonical.prepare(Fresh)
    assert Fresh in canonical._DECODERS
    assert canonical.read(canonical.encode(Fresh(name="a")), Fresh) == Fresh(name="a")
