"""Google ADK with its SQLite session service, in an app that is resumable."""
# ruff: noqa: ANN401 - what a peer hands over has the peer's types, which are not installed here
# mypy: disable-error-code="import-not-found,import-untyped,misc"

from __future__ import annotations

import logging
import warnings
from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.apps.app import ResumabilityConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from bench.workloads.candidate import Candidate
from bench.workloads.child import main
from bench.workloads.script import script

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
_USER = "crew"


class ScriptedLlm(BaseLlm):
    """The script as a model of ADK."""

    async def generate_content_async(
        self, llm_request: Any, *_args: Any, **_rest: Any
    ) -> AsyncIterator[Any]:
        """Answer from the last question and the results after it."""
        asked, n_results = _last_question(llm_request.contents)
        said = script.reply(asked, n_results, len(llm_request.contents))
        parts = [_call(args) for args in said] if isinstance(said, list) else [_text(said)]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def _last_question(contents: Any) -> tuple[str, int]:
    n_results = 0
    for content in reversed(contents):
        for part in content.parts:
            if part.function_response:
                n_results += 1
            elif part.text and content.role == "user":
                return str(part.text), n_results
    raise AssertionError("nobody asked")


def _text(text: str) -> Any:
    return types.Part(text=text)


def _call(args: dict[str, int]) -> Any:
    call = types.FunctionCall(id=script.call_id(), name="sound", args=args)
    return types.Part(function_call=call)


async def sound(i: int) -> str:
    """Sound the depth."""
    return await script.run_tool(i)


class GoogleAdk(Candidate):
    """One runner; a session is ADK's session of one user."""

    async def open(self) -> None:
        """Make app, service and runner."""
        self._service = SqliteSessionService(str(self.folder / "adk.db"))
        app = App(
            name="bench",
            root_agent=LlmAgent(name="bench", model=ScriptedLlm(model="scripted"), tools=[sound]),
            resumability_config=ResumabilityConfig(is_resumable=True),
        )
        self._runner = Runner(app=app, session_service=self._service, auto_create_session=True)
        self._config = RunConfig(max_llm_calls=0)

    async def turn(self, session: str, asked: str) -> str:
        """Run an invocation with a message."""
        message = types.Content(role="user", parts=[types.Part(text=asked)])
        return await self._run(session, new_message=message)

    async def resume(self, session: str, asked: str) -> str:
        """Run the last invocation again, by its id."""
        del asked
        stored = await self._service.get_session(
            app_name="bench", user_id=_USER, session_id=session
        )
        return await self._run(session, invocation_id=stored.events[-1].invocation_id)

    async def _run(self, session: str, **given: Any) -> str:
        answer = ""
        events = self._runner.run_async(
            user_id=_USER, session_id=session, run_config=self._config, **given
        )
        async for event in events:
            if event.is_final_response() and event.content and event.content.parts:
                answer = event.content.parts[0].text or answer
        return answer


if __name__ == "__main__":
    main(GoogleAdk)
