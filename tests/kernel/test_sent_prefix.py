"""The digest of what requests begin with, made once and taken up by whoever reads the history again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.kernel.builders import asks, assistant, call, config, result, user
from windlass.journal.commands import RequestSpec
from windlass.kernel import Chain, ChatProjector, Message, ProjectorView, canonical
from windlass.kernel.projector import SentPrefix, sent_prefix, take_prefix

PROMPT = "Be brief."
SAID = [
    user("one", "m1"),
    asks(call("c1"), id="m2"),
    Message(id="m3", role="user", parts=(result("c1", "1"),)),
    assistant("two", "m4"),
]
UNKNOWN = "0" * 64


def spec(history: Chain[Message], prompt: str = PROMPT) -> RequestSpec:
    view = ProjectorView(config=config(system_prompt=prompt), messages=history)
    return RequestSpec.of(ChatProjector().project(view))


def prefix() -> SentPrefix:
    made = sent_prefix(Chain(SAID), PROMPT)
    assert made is not None
    return made


def test_it_counts_the_prompt_and_names_its_digest() -> None:
    first = {"parts": [{"text": PROMPT, "type": "text"}], "role": "system", "type": "model_message"}

    assert prefix().count == 5
    assert prefix().first == canonical.digest(first)


def test_of_nothing_there_is_none() -> None:
    assert sent_prefix(Chain(), "") is None


def test_a_request_that_goes_on_from_it_has_the_digest_that_it_would_have_had() -> None:
    asked = user("three", "m5")
    wanted = spec(Chain([*SAID, asked]))
    read: Chain[Message] = Chain(SAID)
    take_prefix(read, PROMPT, prefix())

    assert spec(read.append(asked)) == wanted


def test_what_is_taken_is_not_computed_again() -> None:
    read: Chain[Message] = Chain(SAID)
    take_prefix(read, PROMPT, msgspec.structs.replace(prefix(), digest=UNKNOWN))
    asked = user("three", "m5")

    digest = canonical.digest(
        {"parts": [{"text": "three", "type": "text"}], "role": "user", "type": "model_message"}
    )
    assert spec(read.append(asked)).messages == canonical.link(UNKNOWN, digest)


OTHERS: dict[str, dict[str, Any]] = {
    "another prompt": {"first": UNKNOWN},
    "another count": {"count": 4},
    "another way to render": {"rendering": 2},
}


@pytest.mark.parametrize("what", OTHERS)
def test_one_that_does_not_fit_is_left_alone(what: str) -> None:
    read: Chain[Message] = Chain(SAID)
    stale = msgspec.structs.replace(prefix(), digest=UNKNOWN, **OTHERS[what])
    take_prefix(read, PROMPT, stale)

    asked = user("three", "m5")
    assert spec(read.append(asked)) == spec(Chain([*SAID, asked]))
