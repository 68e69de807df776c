"""Secrets are taken out of words, in a turn and at the last door before the disk; what windlass wrote stays."""

from __future__ import annotations

import msgspec
import pytest

from tests.journal.golden_journal import GOLDEN
from windlass.guards import Redactor, Secret, register_secret
from windlass.journal import (
    Claimed,
    JournalPage,
    ModelAnswered,
    ModelCallCommand,
    Recorded,
    RequestSpec,
    ToolCallCommand,
    TurnStarted,
)
from windlass.journal.redaction import cleaned, redact
from windlass.kernel import Json, ModelReply, ToolOutcome, canonical
from windlass.kernel.messages import Attachment, Part, Text

KEY = "sk-4711-canary"
REDACTOR = Redactor([Secret(KEY, name="KEY")])
SPEC = RequestSpec(model="m", messages="ab" * 32, message_count=1)


def page(text: str, args: dict[str, Json]) -> JournalPage:
    model = ModelCallCommand(request=SPEC)
    tool = ToolCallCommand(call_id="c1", name="add", args=args)
    return JournalPage(
        format=2,
        generation=1,
        entries=(
            TurnStarted(agent="a", model="m", instructions=text, context={"deep": [args]}),
            Recorded(
                key="s/t/1/0/model_call/1",
                digest="0" * 64,
                outcome=ModelAnswered(result=ModelReply(text=text)),
                command=model,
            ),
            Claimed(key="s/t/1/0/tool_call/2/0/intent", digest="1" * 64, command=tool),
        ),
    )


def test_words_keys_and_values_lose_the_secret() -> None:
    before = page(f"it is {KEY}.", {"url": f"?k={KEY}", KEY: 1, "name": KEY, "n": [1.5, None, KEY]})
    wanted = page(
        "it is [KEY].", {"url": "?k=[KEY]", "[KEY]": 1, "name": "[KEY]", "n": [1.5, None, "[KEY]"]}
    )

    assert redact(canonical.encode(before), REDACTOR) == canonical.encode(wanted)


def test_bytes_without_a_secret_are_the_same_object() -> None:
    data = canonical.encode(page("nothing to hide", {"a": 1}))

    assert redact(data, REDACTOR) is data


@pytest.mark.parametrize(
    "word", ["journal_page", "model_call", "generation", "recorded", "s/t/1/0"]
)
def test_what_windlass_wrote_stays_when_a_secret_is_spelled_like_it(word: str) -> None:
    redactor = Redactor([Secret(word, name="KEY")])
    before = page(f"my {word}", {"a": word})

    cleaned = canonical.read(redact(canonical.encode(before), redactor), JournalPage)

    assert cleaned == page("my [KEY]", {"a": "[KEY]"})


def words_of_the_format() -> set[str]:
    """Return every tag and every literal that a value may hold, if it could be a secret at all."""
    words: set[str] = set()
    for group in GOLDEN.values():
        for value in group.values():
            words |= texts_in(msgspec.to_builtins(value))
    return {word for word in words if len(word) >= 6}


def texts_in(value: Json) -> set[str]:
    if isinstance(value, dict):
        return set(value) | set().union(*map(texts_in, value.values()))
    if isinstance(value, list):
        return set().union(*map(texts_in, value))
    return {value} if isinstance(value, str) else set()


def test_no_secret_however_it_is_spelled_makes_a_stored_value_unreadable() -> None:
    """Each word that stands anywhere in stored bytes is tried as a secret, on all of them."""
    words = words_of_the_format()
    assert {"claimed", "approved", "answered", "short_circuit", "idempotent"} & words
    for word in words:
        redactor = Redactor([Secret(word, name="KEY")])
        for group in GOLDEN.values():
            for name, value in group.items():
                cleaned = redact(canonical.encode(value), redactor)
                assert type(canonical.read(cleaned, type(value))) is type(value), (word, name)


def test_a_file_name_loses_the_secret_and_its_digest_stays() -> None:
    file = Attachment(ref="ab" * 32, name=f"{KEY}.txt")

    assert redact(canonical.encode(file), REDACTOR) == canonical.encode(
        Attachment(ref="ab" * 32, name="[KEY].txt")
    )


# --- values of a turn ----------------------------------------------------------------------------


def test_a_value_is_cleaned_to_what_a_store_would_write() -> None:
    outcome = ToolOutcome(value={"a": [KEY, 1.5, None]}, content=(Text(text=f"it is {KEY}"),))
    register_secret(Secret(KEY, name="KEY"))

    clean = cleaned(outcome)

    assert clean == ToolOutcome(
        value={"a": ["[KEY]", 1.5, None]}, content=(Text(text="it is [KEY]"),)
    )
    assert canonical.encode(clean) == redact(canonical.encode(outcome), REDACTOR)
    assert cleaned(clean) is clean


def test_several_values_are_cleaned_by_their_hint() -> None:
    register_secret(Secret(KEY, name="KEY"))
    parts: tuple[Part, ...] = (Text(text=KEY), Attachment(ref="ab" * 32))

    assert cleaned(parts, tuple[Part, ...]) == (Text(text="[KEY]"), Attachment(ref="ab" * 32))


def test_a_value_in_which_nothing_is_secret_is_the_same_object() -> None:
    outcome = ToolOutcome(value=KEY)

    assert cleaned(outcome) is outcome  # nothing is registered
    register_secret(Secret("tool_outcome", name="KEY"))
    assert cleaned(outcome) is outcome  # only a tag is spelled like it
