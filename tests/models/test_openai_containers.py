"""Code that OpenAI ran in a container: sent back while the container is there, left out once it is gone."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.models import wire_openai_responses as wire
from tests.models.behaviours import KEY, ask
from tests.models.openai_response_cases import asked, said
from tests.models.test_openai_server_tools import BOX
from tests.models.wire_server import Played, Seen, WireServer
from windlass.errors import ProviderError, Rejected
from windlass.kernel import ModelReply
from windlass.kernel.messages import Text
from windlass.models.openai_responses import OpenAIResponsesModel

CODE_RAN = wire.completed(wire.reasoning((), "gAAAA"), wire.ran(BOX, 1), wire.message("42.", 2))
QUESTION = said("user", Text(text="6 * 7?"))


def refusing(message: str) -> Callable[[Seen], Played]:
    """Answer with code that ran; then refuse every request that names it."""

    def answer(seen: Seen) -> Played:
        kinds = [item.get("type") for item in seen.json["input"]]
        if "code_interpreter_call" in kinds:
            body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}})
            return Played(body.encode(), 400, {}, "application/json")
        is_first = len(kinds) == 1
        return Played(CODE_RAN if is_first else wire.completed(wire.message("Still 42.")))

    return answer


async def asked_twice(message: str) -> tuple[ModelReply | ProviderError, list[list[str | None]]]:
    """Ask, and ask on; return what came of the second, and the kinds of items that were sent each time."""
    async with WireServer({"POST /v1/responses": refusing(message)}) as server:
        model = OpenAIResponsesModel("gpt-5", base_url=f"{server.url}/v1", api_key=KEY)
        reply, _ = await ask(model, asked(QUESTION))
        talk = (QUESTION, said("assistant", *reply.parts), said("user", Text(text="Sure?")))
        came: ModelReply | ProviderError
        try:
            came, _ = await ask(model, asked(*talk))
        except ProviderError as error:
            came = error
        await model.aclose()
    return came, [[item.get("type") for item in seen.json["input"]] for seen in server.requests]


async def test_a_session_goes_on_after_the_container_of_its_code_is_gone() -> None:
    """Reported: every later request of such a conversation is refused."""
    came, sent = await asked_twice("Expected container_id: cntr_1")
    assert isinstance(came, ModelReply)
    assert came.text == "Still 42."
    assert sent[1:] == [
        [None, "reasoning", "code_interpreter_call", "message", None],
        [None, "message", None],
    ]


async def test_another_refusal_is_not_asked_again() -> None:
    came, sent = await asked_twice("No such model")
    assert isinstance(came, Rejected)
    assert len(sent) == 2
