"""The bytes of a model call's command are put together, and are those that the encoder would have made."""

from __future__ import annotations

import pytest

from windlass.journal import ModelCallCommand
from windlass.kernel import Generation, ModelMessage, ModelRequest, Text, ToolSpec, canonical
from windlass.runtime.model_call import _RequestBodies


def request(session_id: str | None, *words: str, **settings: object) -> ModelRequest:
    messages = [ModelMessage(role="user", parts=(Text(text=each),)) for each in words]
    return ModelRequest(model="m", messages=messages, session_id=session_id, **settings)  # type: ignore[arg-type]


# Each of them has what could be taken for the place of another.
REQUESTS = [
    request("s", "a"),
    request("s", "a", "b"),
    request("t", "a", "b"),
    request(None, "a"),
    request("s", "a", output={"session_id": "s", "type": "object"}),
    request("object", "a", output={"session_id": "s", "type": "object"}),
    request("request_spec", "a", tools=(ToolSpec(name="model"),)),
    request("m", '"session_id":"m"', variant='"session_id":"m"'),
    request("s", generation=Generation(stop=('"session_id":"s"',))),
]


@pytest.mark.parametrize("before", range(len(REQUESTS)))
def test_they_are_those_of_the_encoder_whatever_was_asked_before(before: int) -> None:
    bodies = _RequestBodies()
    for each in REQUESTS:
        bodies.of(REQUESTS[before])
        assert bodies.of(each) == canonical.encode(ModelCallCommand.of(each))
