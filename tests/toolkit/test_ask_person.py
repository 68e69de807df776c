"""The tool with which a model asks a person: what the model is told to give, and what the person may say."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import Told, last_told
from windlass import Agent, Runtime
from windlass.errors import InvalidInput
from windlass.testing import ScriptedModel, call, say
from windlass.toolkit.person import ask_person


def asker(
    *replies: Any,
    deadline: float | None = None,
) -> tuple[Agent[None, str], ScriptedModel]:
    model = ScriptedModel([*replies, say("Done.")])
    return Agent("asker", model=model, tools=[ask_person(deadline=deadline)]), model


async def said_to(answer: object, **args: Any) -> tuple[Any, Told]:
    """Return the question that a model asked with these arguments, and what it was told of the answer."""
    agent, model = asker(call("ask_person", **args))
    async with Runtime(agent, store="memory:") as rt:
        (wait,) = (await rt.session("s").run("Go.", turn_id="t")).waits
        await rt.resolve(wait.key, answer, by="eva")
        await rt.turn("s", "t").result(timeout=HANGS_S)
    return wait, last_told(model)[0]


def test_the_model_is_told_what_it_is_for_and_what_to_give() -> None:
    spec = ask_person().spec

    assert (spec.name, ask_person().effect, ask_person().approval) == (
        "ask_person", "idempotent", "never",
    )  # fmt: skip
    assert spec.description.startswith("Ask the person you work for.")
    assert spec.parameters["required"] == ["question"]
    assert set(spec.parameters["properties"]) == {"question", "choices"}


async def test_a_free_answer_is_the_result_of_the_call() -> None:
    wait, told = await said_to("With the red one.\n", question="How do I open it?")

    assert (wait.kind, wait.title) == ("question", "How do I open it?")
    assert wait.detail["schema"] == {"type": "string", "minLength": 1}
    assert (told.status, told.text) == ("ok", "With the red one.\n")


async def test_of_the_answers_that_are_offered_one_is_taken() -> None:
    wait, told = await said_to(
        "blue", question="Which?", choices=["blue", " light\ngreen ", "blue"]
    )

    assert wait.detail["schema"] == {"type": "string", "enum": ["blue", "light green"]}
    assert told.text == "blue"


async def test_no_choices_are_the_same_as_an_empty_list_of_them() -> None:
    wait, _ = await said_to("any", question="Which?", choices=[])

    assert wait.detail["schema"] == {"type": "string", "minLength": 1}


@pytest.mark.parametrize("answer", ["red", "", 3, None, ["blue"]])
async def test_another_answer_is_refused_and_the_question_stays_open(answer: object) -> None:
    agent, _ = asker(call("ask_person", question="Which?", choices=["blue", "green"]))
    async with Runtime(agent, store="memory:") as rt:
        (wait,) = (await rt.session("s").run("Go.", turn_id="t")).waits
        with pytest.raises(InvalidInput, match="value: found"):
            await rt.resolve(wait.key, answer)
        assert await rt.waits("question") == (wait,)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"question": " "}, "question: found no words, wanted what the person is asked"),
        ({"question": "Which?", "choices": ["one"]}, "choices: found 1, wanted 2 to 20 different"),
        ({"question": "Which?", "choices": ["a", " a "]}, "choices: found 1, wanted 2 to 20"),
        ({"question": "Which?", "choices": ["a", " "]}, "choices: found 2, wanted 2 to 20"),
        (
            {"question": "Which?", "choices": [str(n) for n in range(21)]},
            "choices: found 21, wanted 2 to 20 different answers, none of them empty; without choices",
        ),
        ({"question": "q" * 20_000}, "limit_exceeded: question: metadata_bytes is 20,000"),
    ],
)
async def test_a_question_that_cannot_be_asked_is_told_to_the_model(
    args: dict[str, Any], says: str
) -> None:
    agent, model = asker(call("ask_person", **args))
    async with Runtime(agent, store="memory:") as rt:
        result = await rt.session("s").run("Go.")
        assert await rt.waits() == ()
    (told,) = last_told(model)

    assert result.text == "Done."
    assert told.status == "error"
    assert told.text.startswith(says)


async def test_a_deadline_is_that_of_each_question() -> None:
    agent, _ = asker(call("ask_person", question="Which?"), deadline=3_600)
    async with Runtime(agent, store="memory:") as rt:
        (wait,) = (await rt.session("s").run("Go.")).waits

    assert wait.expires_ms == wait.created_ms + 3_600_000


@pytest.mark.parametrize("deadline", [-1, float("nan"), "soon", True])
def test_a_deadline_that_is_none_is_refused_when_the_tool_is_made(
    deadline: object,
) -> None:
    with pytest.raises(InvalidInput, match=r"deadline: found .*, wanted seconds of 0 or more"):
        ask_person(deadline=deadline)  # type: ignore[arg-type]  # that is what is checked


PROGRAM = """
import asyncio, os, signal, sys
from windlass import Agent, Runtime
from windlass.testing import ScriptedModel, call, say
from windlass.toolkit.person import ask_person

async def main(step):
    model = ScriptedModel([call("ask_person", question="Which?"), say("Done.")])
    agent = Agent("asker", model=model, tools=[ask_person()])
    async with Runtime(*([] if step == "answer" else [agent]), store="sqlite:///a.db") as rt:
        if step == "ask":
            await rt.session("s").run("Go.", turn_id="t")
            os.kill(os.getpid(), signal.SIGKILL)
        elif step == "answer":
            (wait,) = await rt.waits("question")
            await rt.resolve(wait.key, "the blue one")
        else:
            result = await rt.turn("s", "t").result(timeout=120)
            print(result.tool_calls[0].outcome.value, result.text)

asyncio.run(main(sys.argv[1]))
"""


def test_asked_by_one_process_answered_by_another_and_finished_by_a_third(tmp_path: Path) -> None:
    def play(step: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, step], cwd=tmp_path, env={**os.environ},
            capture_output=True, text=True, timeout=HANGS_S, check=False,
        )  # fmt: skip
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode, done.stdout

    assert play("ask") == (-9, "")
    assert play("answer") == (0, "")
    assert play("finish") == (0, "the blue one Done.\n")


async def test_of_two_people_who_answer_at_once_the_first_is_heard() -> None:
    agent, model = asker(call("ask_person", question="Which?"))
    async with Runtime(agent, store="memory:") as rt:
        (wait,) = (await rt.session("s").run("Go.", turn_id="t")).waits
        one, two = await asyncio.gather(
            rt.resolve(wait.key, "eva's", by="eva"), rt.resolve(wait.key, "tom's", by="tom")
        )
        await rt.turn("s", "t").result(timeout=HANGS_S)
    (told,) = last_told(model)

    assert sorted([one.status, two.status]) == ["accepted", "already"]
    assert one.answer is not None
    assert one.answer == two.answer
    assert told.text == one.answer.value
