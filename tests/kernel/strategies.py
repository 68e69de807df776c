"""What the world may answer, as Hypothesis strategies: mostly usual, often odd, sometimes hostile.

Words and ids are drawn from short lists, so that collisions and blanks are common and a failing
example is short to read. Everything here is a value that the kernel's own types accept.

A strategy is made once: making one costs more than drawing from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import cycle
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from windlass.kernel import (
    Attachment,
    CheckpointDelivery,
    Citation,
    Code,
    CodeOutput,
    CompletedToolCall,
    EndTurn,
    Environment,
    ErrorText,
    FailTurn,
    Failure,
    HandOff,
    InjectedMessage,
    InputOrigin,
    Message,
    ModelFailure,
    ModelReply,
    Origin,
    PendingToolCall,
    PluginOrigin,
    ProcessOrigin,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
    TurnCause,
    TurnIds,
    Usage,
)
from windlass.kernel.model_call import ReplyPart

SESSION_ID = "s"

TOOLS = (
    ToolSpec(name="add", description="Adds.", parameters={"type": "object"}),
    ToolSpec(name="look_up", description="Looks up.", parameters={"type": "object"}),
)

_SAID = ("hello", "a\n\nb ", " padded ", "ünï 🎉", "{}", "[note from the system]")
_BLANK = ("", " ", "\n\t", "\u2003")
_NAMES = ("add", "look_up", "absent")
_BAD_NAMES = ("", " ", "add numbers", "ns.add", "über", "x" * 65, "add\n", "functions/add:0")
_TERMINALS = ("stop", "tool_use", "unknown", "output_limit", "pause_turn")
_ENDING_TERMINALS = ("context_overflow", "content_filter", "provider_error", "cancelled")
_STATUSES = ("ok", "error", "denied", "timeout", "cancelled", "unknown")
_UNPARSEABLE = ('{"a": 1', "[1]", "nonsense", '{"a": NaN}', '"text"', '{"a": 1e999}', "[" * 80)

# Providers mint ids of every shape, local ones give none or the same again; some let the model
# write them, and a model repeats what it saw, or goes on counting from it.
_GUESSED = tuple(
    TurnIds(SESSION_ID, turn_id).call(iteration, at)
    for turn_id in ("t0", "t1")
    for iteration in (0, 1)
    for at in (0, 1)
)
_CALL_IDS = ("call_a", "call_b", "call_c", "toolu_01", "", "functions.add:0", "a b", "x" * 65, "ü")


@cache
def words() -> SearchStrategy[str]:
    """Text that says something, now and then text that says nothing."""
    return st.sampled_from((*_SAID, *_BLANK))


@cache
def origins() -> SearchStrategy[Origin]:
    return st.sampled_from(
        (
            PluginOrigin(plugin="p"),
            PluginOrigin(plugin="p", transient=True),
            ProcessOrigin(process_id="q", event_type="done", sequence=1, wake_id="w"),
            InputOrigin(turn_id="t0", input_id="i"),
        )
    )


@cache
def attachments() -> SearchStrategy[Attachment]:
    return st.sampled_from(
        (
            Attachment(ref="blob-1", media_type="image/png", name="a.png", n_bytes=3),
            Attachment(ref="blob-2"),
        )
    )


# --- model ---------------------------------------------------------------------------------------


@cache
def usages() -> SearchStrategy[Usage]:
    return st.sampled_from(
        (
            Usage(),
            Usage(input_tokens=3, output_tokens=2, reasoning_tokens=1),
            # With no output this is a prompt that filled a window of 100.
            Usage(input_tokens=60, cached_input_tokens=30, cache_write_tokens=10),
        )
    )


@cache
def reasonings() -> SearchStrategy[Reasoning]:
    """Thoughts, with and without the blob that lets them be shown again."""
    replays = st.sampled_from((None, {"signature": "s"}, {"id": "rs_1", "encrypted": "e"}))
    return st.builds(Reasoning, text=words(), replay=replays)


@cache
def said_words() -> SearchStrategy[Text]:
    """Words as providers mark them: of a phase, with pages that they rest on, with a blob."""
    return st.builds(
        Text,
        text=words(),
        phase=st.sampled_from((None, None, "commentary", "final_answer", "draft")),
        citations=st.sampled_from(((), (), (Citation(url="https://a.example", title="A"),))),
        replay=st.sampled_from((None, None, {"annotations": []})),
    )


@cache
def server_calls() -> SearchStrategy[ServerToolCall]:
    """Tools that the provider ran itself, with and without the blob that lets them be shown again."""
    replays = st.sampled_from((None, {"id": "ws_1"}))
    return st.builds(ServerToolCall, name=st.just("web_search"), text=words(), replay=replays)


@cache
def call_ids() -> SearchStrategy[str]:
    return st.sampled_from((*_CALL_IDS, *_GUESSED))


@cache
def tool_calls() -> SearchStrategy[ToolCall]:
    """A call; about one in four cannot run, for its name or its arguments."""
    arguments: list[dict[str, Any]] = [
        {"args": {"a": 1}},
        {"args": {"a": 1}, "raw": '{"a": 1}'},
        {"raw": '{"b": [true, null]}'},
        {},
        {"raw": "{}"},
        {"args": {"a": 1}, "raw": '{"a": 1, "b'},
    ]
    broken: list[dict[str, Any]] = [{"raw": raw} for raw in _UNPARSEABLE]
    return st.builds(
        lambda call_id, name, given, replay: ToolCall(
            call_id=call_id, name=name, replay=replay, **given
        ),
        call_id=call_ids(),
        name=st.sampled_from(_NAMES * 4 + _BAD_NAMES),
        given=st.sampled_from(arguments * 3 + broken),
        replay=st.sampled_from((None, None, {"thought_signature": "s"})),
    )


def _reply(parts: Sequence[ReplyPart], terminal: str, usage: Usage) -> ModelReply:
    return ModelReply(parts=tuple(parts), terminal=terminal, usage=usage)


@cache
def usual_replies() -> SearchStrategy[ModelReply]:
    """What keeps a turn going: calls that run, or an answer in words."""
    call = ToolCall(call_id="call_a", name="add", args={"a": 1})
    other = ToolCall(call_id="call_b", name="look_up", raw='{"a": 1}')
    return st.sampled_from(
        (
            ModelReply(parts=(call,), terminal="tool_use"),
            ModelReply(parts=(Text(text="first"), call, other), terminal="tool_use"),
            ModelReply(text="done"),
        )
    )


@cache
def odd_replies() -> SearchStrategy[ModelReply]:
    """Any mixture of parts under any terminal reason, empty ones too."""
    part: SearchStrategy[ReplyPart] = st.one_of(
        tool_calls(), st.builds(Text, text=words()), said_words(), reasonings(), server_calls()
    )
    terminals = st.sampled_from(_TERMINALS * 6 + _ENDING_TERMINALS)
    return st.builds(_reply, st.lists(part, max_size=5), terminals, usages())


@cache
def huge_replies() -> SearchStrategy[ModelReply]:
    """More parts than anybody asked for: around every bound on parts and on calls."""

    def repeated(part: Text | ToolCall, n: int) -> ModelReply:
        return ModelReply(parts=(part,) * n, terminal="tool_use")

    parts = st.builds(Text, text=st.just("again ")) | tool_calls()
    return st.builds(repeated, parts, st.sampled_from((129, 257, 385)))


@cache
def model_replies() -> SearchStrategy[ModelReply]:
    """A reply. Half of them are usual, so that turns get somewhere; huge ones are rare."""
    usual, odd, huge = usual_replies(), odd_replies(), huge_replies()
    return st.integers(0, 39).flatmap(lambda die: huge if die == 39 else odd if die % 2 else usual)


@cache
def model_failures() -> SearchStrategy[ModelFailure]:
    return st.builds(
        ModelFailure,
        message=words(),
        retryable=st.booleans(),
        code=st.sampled_from((None, "overloaded")),
        terminal=st.sampled_from(("provider_error", *_ENDING_TERMINALS)),
    )


# --- tools ---------------------------------------------------------------------------------------


@cache
def tool_outcomes() -> SearchStrategy[ToolOutcome]:
    """How a call ends: every status, every control, nothing to show, blanks, attachments."""
    content: SearchStrategy[tuple[Text | Attachment, ...]] = st.lists(
        st.builds(Text, text=words()) | attachments(), max_size=2
    ).map(tuple)
    controls = (EndTurn(value=1), FailTurn(value="no"), FailTurn(), HandOff(target="b", task={}))
    return st.builds(
        ToolOutcome,
        status=st.sampled_from(("ok", "ok", "ok", *_STATUSES)),
        value=st.sampled_from((None, "", " ", "text", 0, [], {"a": [1]}, False)),
        content=content,
        shown=st.none() | content,
        control=st.sampled_from((None,) * 9 + controls),
    )


def all_completed(
    calls: Sequence[PendingToolCall],
) -> SearchStrategy[tuple[CompletedToolCall, ...]]:
    """One end for every call, in any order; what ran may differ from what was asked.

    Many calls share few outcomes, to stay quick.
    """
    few = min(len(calls), 4)
    drawn = st.lists(st.tuples(tool_outcomes(), st.booleans()), min_size=few, max_size=few)

    def ended(ends: list[tuple[ToolOutcome, bool]], first: int) -> tuple[CompletedToolCall, ...]:
        results = [
            CompletedToolCall(
                call_id=call.call_id,
                name=call.name,
                args={"rewritten": True} if rewritten else call.args,
                outcome=outcome,
                replay=call.replay,
            )
            for call, (outcome, rewritten) in zip(calls, cycle(ends), strict=False)
        ]
        return (*results[first:], *results[:first])

    return st.builds(ended, drawn, st.integers(0, few))


# --- what comes in -------------------------------------------------------------------------------


@cache
def user_messages(message_id: str = "u0") -> SearchStrategy[Message]:
    """A caller's input under an id; it may be blank."""
    part: SearchStrategy[Any] = st.builds(Text, text=words()) | attachments()
    return st.builds(
        lambda parts: Message(
            id=message_id, role="user", parts=tuple(parts), origin=InputOrigin(turn_id="t0")
        ),
        st.lists(part, min_size=1, max_size=2),
    )


@cache
def causes() -> SearchStrategy[tuple[TurnCause, ...]]:
    """Why a turn runs without being asked; ids are few, so the same cause comes again."""
    cause = st.builds(
        TurnCause,
        id=st.sampled_from(("wake-1", "wake-2", "wake-3")),
        event_type=st.sampled_from(("timer", "process.done")),
        origin=origins(),
        text=words(),
    )
    return st.lists(cause, max_size=2).map(tuple)


@cache
def injected_messages() -> SearchStrategy[InjectedMessage]:
    """What a plugin hands in, allowed or not: any role, any part, calls and results too."""
    part: SearchStrategy[Any] = st.one_of(
        st.builds(Text, text=words()),
        attachments(),
        st.builds(Code, language=st.just("python"), source=words()),
        st.builds(CodeOutput, text=words(), error=st.none() | words()),
        st.builds(ErrorText, text=words()),
        reasonings(),
        tool_calls(),
        st.builds(ToolResult, call_id=call_ids(), name=st.just("add"), content=st.just(())),
    )
    return st.builds(
        InjectedMessage,
        role=st.sampled_from(("user", "user", "system", "assistant", "event", "tool")),
        parts=st.lists(part, max_size=3).map(tuple),
        origin=st.none() | origins(),
    )


@cache
def deliveries() -> SearchStrategy[CheckpointDelivery | Failure]:
    """What a checkpoint brings: nothing in half of the cases, now and then a failure."""
    some = st.builds(
        CheckpointDelivery,
        messages=st.lists(injected_messages(), max_size=2).map(tuple),
        transient_messages=st.lists(injected_messages(), max_size=1).map(tuple),
        causes=causes(),
    )
    nothing = st.just(CheckpointDelivery())
    failed = st.builds(Failure, message=words())
    return st.integers(0, 19).flatmap(
        lambda die: failed if die == 19 else some if die % 2 else nothing
    )


@cache
def prompts() -> SearchStrategy[str]:
    return st.sampled_from(("You help.", "You help.", "", "  \n"))


@cache
def tool_sets() -> SearchStrategy[tuple[ToolSpec, ...]]:
    return st.sampled_from((TOOLS, TOOLS[:1], ()))


@cache
def environments() -> SearchStrategy[Environment | Failure | None]:
    """Prompt and tools from now on: others, unchanged, or a failure now and then."""
    other = st.builds(Environment, system_prompt=prompts(), tools=tool_sets())
    failed = st.just(Failure(message="gone"))
    return st.integers(0, 19).flatmap(
        lambda die: failed if die == 19 else other if die % 2 else st.none()
    )
