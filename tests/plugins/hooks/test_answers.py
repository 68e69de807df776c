"""Answers that no hook may give: a guard has then allowed nothing, a builder ends the turn, the session stays readable."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import Ledger
from tests.scenarios.stage import Stage
from windlass import Agent, TurnResult
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text
from windlass.kernel.messages import Attachment, ToolCall
from windlass.kernel.responses import InjectedMessage
from windlass.kernel.tool_call import ToolOutcome
from windlass.kernel.value import Value
from windlass.ports.directives import (
    Abort,
    Delivery,
    Finale,
    Hold,
    Refuse,
    ReplaceArgs,
    Retry,
    Send,
    ShortCircuit,
    Stop,
    Withhold,
)
from windlass.ports.plugin import HOOKS
from windlass.ports.policy import Ask, Deny
from windlass.ports.prompt import Contribution
from windlass.runtime.answers import _FIELDS
from windlass.testing import call, say

NUL = "a\x00b"
LONE = "a\ud800b"
WRONG: Any = 5
# Bytes that nobody keeps: a turn that refers to them could never be committed.
LOST = Attachment(ref="0" * 64, media_type="image/png", name="lost.png", n_bytes=5)
LETTER = InjectedMessage(role="user", parts=(LOST,))


def unread(kinds: Iterable[type]) -> list[str]:
    """Return the fields of answers that nothing reads. Values of the kernel are encoded, which reads them all."""
    return [
        f"{kind.__name__}.{field}"
        for kind in kinds
        if not issubclass(kind, Value)
        for field in set(kind.__struct_fields__) - set(_FIELDS.get(kind, ()))  # type: ignore[attr-defined]  # structs
    ]


def test_every_field_of_every_answer_is_read() -> None:
    assert unread({kind for hook in HOOKS.values() for kind in hook.answers}) == []


def test_a_directive_that_nothing_reads_is_seen() -> None:
    class Preface(msgspec.Struct):
        text: str

    assert unread([Stop, Preface]) == ["Preface.text"]


def asked(role: Any, part: Any) -> ModelMessage:  # noqa: ANN401 - whatever a plugin makes of it
    return ModelMessage(role=role, parts=(part,))


# Made where the hook runs: some of it cannot even be made.
BUILDERS: list[tuple[str, Any]] = [
    ("on_input", lambda *_: WRONG),
    ("on_input", lambda *_: [Text(text="a"), WRONG]),
    ("on_input", lambda *_: [NUL]),
    ("on_input", lambda *_: [Text(text="a"), LOST]),
    ("on_input", lambda *_: Refuse(NUL)),
    ("on_input", lambda *_: Refuse(WRONG)),
    ("on_input", lambda *_: Abort("wrong hook")),
    ("before_turn", lambda *_: WRONG),
    ("before_turn", lambda *_: [LONE]),
    ("before_turn", lambda *_: [InjectedMessage(role="assistant", parts=())]),
    ("before_turn", lambda *_: [InjectedMessage(role="user", parts=(WRONG,))]),
    ("before_turn", lambda *_: [LETTER]),
    ("before_turn", lambda *_: Abort(LONE)),
    ("before_turn", lambda *_: Refuse("wrong hook")),
    ("prompt", lambda *_: WRONG),
    ("prompt", lambda *_: [Contribution(WRONG)]),
    ("prompt", lambda *_: [Contribution(NUL)]),
    ("prompt", lambda *_: [Contribution("a", slot="attic")]),  # type: ignore[arg-type]  # that is the fault
    ("prompt", lambda *_: [Contribution("a", layer="cake")]),  # type: ignore[arg-type]  # that is the fault
    ("prompt", lambda *_: [Contribution("a", priority="high")]),  # type: ignore[arg-type]  # that is the fault
    ("prompt", lambda *_: [Contribution("a", title=LONE)]),
    ("prompt", lambda *_: ["x" * 2_000_000]),
    ("view", lambda *_: WRONG),
    ("view", lambda *_: Stop("wrong hook")),
    ("before_model", lambda *_: WRONG),
    ("before_model", lambda *_: Send(request=WRONG)),
    ("before_model", lambda *_: Send(reserve=WRONG)),
    ("before_model", lambda *_: Hold(key=WRONG, title="a")),
    ("before_model", lambda *_: Hold(key="k", title=NUL)),
    ("before_model", lambda *_: Hold(key="k", title="a", detail=object())),
    ("before_model", lambda *_: Stop(NUL)),
    ("before_model", lambda *_: Stop("a", reason="whim")),  # type: ignore[arg-type]  # that is the fault
    ("before_model", lambda *_: ModelRequest(model=WRONG, messages=())),
    ("before_model", lambda *_: ModelRequest(model="m", messages=(WRONG,))),
    ("before_model", lambda *_: ModelRequest(model="m", messages=(asked("user", "words"),))),
    ("before_model", lambda *_: ModelRequest(model="m", messages=(asked("tool", Text(text="a")),))),
    ("before_model", lambda *_: ModelRequest(model="m", messages=(), tools=(WRONG,))),
    ("before_model", lambda *_: Delivery(messages=["wrong hook"])),
    ("after_model", lambda *_: WRONG),
    ("after_model", lambda *_: Stop("a", reason="whim")),  # type: ignore[arg-type]  # that is the fault
    ("after_model", lambda *_: Stop(LONE)),
    ("after_model", lambda *_: Withhold(LONE)),
    ("after_model", lambda *_: Withhold(WRONG)),
    ("after_model", lambda *_: ModelReply(parts=(WRONG,))),
    ("after_model", lambda *_: ModelReply(parts=(ToolCall(call_id=WRONG, name="act"),))),
    ("at_checkpoint", lambda *_: WRONG),
    ("at_checkpoint", lambda *_: Stop("a", reason="whim")),  # type: ignore[arg-type]  # that is the fault
    ("at_checkpoint", lambda *_: Stop(NUL)),
    ("at_checkpoint", lambda *_: Delivery(messages=[WRONG])),
    ("at_checkpoint", lambda *_: Delivery(transient=[NUL])),
    ("at_checkpoint", lambda *_: Delivery(causes=[WRONG])),
    ("at_checkpoint", lambda *_: Delivery(messages=[LETTER])),
    ("at_checkpoint", lambda *_: Delivery(transient=[LETTER])),
]
BEFORE: list[Any] = [
    lambda *_: WRONG,
    lambda *_: Stop("wrong hook"),
    lambda *_: ReplaceArgs(WRONG),
    lambda *_: ReplaceArgs({"x": object()}),
    lambda *_: ReplaceArgs({"x": LONE}),
    lambda *_: Deny(reason=WRONG),
    lambda *_: Deny(reason=NUL),
    lambda *_: Ask(title=WRONG),
    lambda *_: Ask(title=LONE),
    lambda *_: Ask(risk="deadly"),  # type: ignore[arg-type]  # that is the fault
    lambda *_: Ask(action_key=NUL),
    lambda *_: Ask(action_key=WRONG),
    lambda *_: ShortCircuit(ToolOutcome(status="great", value=1)),  # type: ignore[arg-type]  # that is the fault
    lambda *_: ShortCircuit(ToolOutcome(content=(WRONG,))),
    lambda *_: ShortCircuit(ToolOutcome(content=(LOST,))),
]
AFTER: list[tuple[str, Any]] = [
    ("after_tool", lambda *_: WRONG),
    ("after_tool", lambda *_: "cleaned"),
    ("after_tool", lambda *_: Deny(reason=NUL)),
    ("after_tool", lambda *_: ToolOutcome(status="great", value=1)),  # type: ignore[arg-type]  # that is the fault
    ("after_tool", lambda *_: ToolOutcome(shown=(WRONG,))),
    ("after_tool", lambda *_: ToolOutcome(content=(LOST,))),
    ("after_tool", lambda *_: ToolOutcome(value="a", shown=(LOST,))),
    ("present_result", lambda *_: WRONG),
    ("present_result", lambda *_: [Text(text="a"), WRONG]),
    ("present_result", lambda *_: [NUL]),
    ("present_result", lambda *_: [LOST]),
    ("present_result", lambda *_: Deny(reason="wrong hook")),
]
NOTED: list[tuple[str, Any]] = [
    ("on_error", lambda *_: WRONG),
    ("on_error", lambda *_: Retry(NUL)),
    ("on_error", lambda *_: Retry(after_s=float("nan"))),
    ("on_error", lambda *_: Retry(after_s="soon")),  # type: ignore[arg-type]  # that is the fault
    ("on_error", lambda *_: Stop("a", reason="whim")),  # type: ignore[arg-type]  # that is the fault
    ("after_turn", lambda *_: WRONG),
    ("after_turn", lambda *_: Finale(messages=[WRONG])),
    ("after_turn", lambda *_: Finale(messages=[LETTER])),
    ("after_turn", lambda *_: Finale(issues=[NUL])),
    ("after_turn", lambda *_: Finale(compact=WRONG)),
    ("after_turn", lambda *_: Finale(compact={"a": object()})),
]


def by_hook(answers: list[tuple[str, Any]]) -> Any:  # noqa: ANN401 - parameters
    hooks = dict.fromkeys(hook for hook, _ in answers)
    grouped = [(hook, [answer for one, answer in answers if one == hook]) for hook in hooks]
    return [pytest.param(*one, id=one[0]) for one in grouped]


async def played(stage: Stage, hook: str, answers: list[Any], x: int = 1) -> list[TurnResult[Any]]:
    """Play a turn for each answer; see in another process that its session can be read and goes on."""
    ledger = Ledger()
    model = ledger.model([call("act", x=x), say("Done.")])
    names = [f"s{at}" for at in range(len(answers))]
    odd = [
        Agent(
            name, model=model, tools=[ledger.tool()], plugins=[hooked("odd", **{hook: answers[at]})]
        )
        for at, name in enumerate(names)
    ]
    async with stage.runtime(*odd) as rt:
        results = [await rt.session(one, agent=one).run("Go.", turn_id="t") for one in names]
    fine = Ledger().model([say("Well.")] * 4)
    async with stage.runtime(*(Agent(one, model=fine) for one in names)) as rt:
        for one in names:
            again = await rt.session(one, agent=one).run("Are you there?", turn_id="t2")
            assert again.text == "Well.", f"{hook}: {one}"
    return results


def is_named(text: str, hook: str) -> bool:
    return "the plugin odd" in text and hook in text


@pytest.fixture
def file_stage(tmp_path: Path) -> Stage:
    return Stage("sqlite", tmp_path)


@pytest.mark.parametrize(("hook", "answers"), by_hook(BUILDERS))
async def test_a_builder_that_gives_nonsense_ends_the_turn_and_is_named(
    hook: str, answers: list[Any], file_stage: Stage
) -> None:
    for at, result in enumerate(await played(file_stage, hook, answers)):
        assert result.status == "done", at
        assert getattr(result.outcome, "reason", None) == "runtime_error", at
        assert is_named(getattr(result.outcome, "detail", ""), hook), at


async def test_a_guard_that_says_nonsense_has_allowed_nothing(file_stage: Stage) -> None:
    for at, result in enumerate(await played(file_stage, "before_tool", BEFORE)):
        (done,) = result.tool_calls
        assert done.outcome.status == "denied", at
        assert is_named(str(done.outcome.value), "before_tool"), at
        assert result.text == "Done.", at
        assert [issue.code for issue in result.issues] == ["plugin_failed"], at


@pytest.mark.parametrize(("hook", "answers"), by_hook(AFTER))
async def test_who_shows_nonsense_has_shown_nothing(
    hook: str, answers: list[Any], file_stage: Stage
) -> None:
    for at, result in enumerate(await played(file_stage, hook, answers)):
        (done,) = result.tool_calls
        assert str(done.outcome.value).startswith("(Its result is withheld: "), at
        assert is_named(str(done.outcome.value), hook), at
        assert "did 1" not in str(result.messages), at
        assert result.text == "Done.", at


@pytest.mark.parametrize(("hook", "answers"), by_hook(NOTED))
async def test_other_nonsense_is_noted_and_the_turn_goes_on(
    hook: str, answers: list[Any], file_stage: Stage
) -> None:
    for at, result in enumerate(await played(file_stage, hook, answers, x=13)):
        assert result.text == "Done.", at
        (issue,) = result.issues
        assert is_named(issue.message, hook), at
