"""Envelopes: what could not be recorded and found again is refused where it is built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.journal.builders import COMMANDS, SCOPE, envelope, request, said
from tests.kernel.other_encoder import chained
from tests.kernel.refusals import refused
from tests.limits import HANGS_S
from windlass.journal import (
    EffectKind,
    EffectSubject,
    Envelope,
    Invocation,
    ModelCallCommand,
    Moment,
    RequestSpec,
    ToolCallCommand,
    effect_digest,
)
from windlass.kernel import (
    Chain,
    Generation,
    ModelMessage,
    ModelRequest,
    ToolSpec,
    canonical,
)

ROOT = Path(__file__).parents[2]
SLEEP = COMMANDS["sleep"]
OTHERS: dict[str, Any] = {"Scope": SCOPE, "str": "e"}


def invocation(**changes: Any) -> Invocation:
    fields: dict[str, Any] = {
        "scope": SCOPE,
        "subject": EffectSubject(effect_id="e", kind="sleep"),
        "replay_key": "s/t/0/1/sleep/e",
    }
    return Invocation(**(fields | changes))


# --- what is refused -----------------------------------------------------------------------------


def test_an_effect_with_its_command_and_key_is_an_envelope() -> None:
    whole = Envelope(invocation=invocation(), command=SLEEP)
    assert whole.kind == "sleep"
    assert whole.key == "s/t/0/1/sleep/e"


@pytest.mark.parametrize("name", OTHERS)
def test_a_subject_that_is_no_effect_is_refused(name: str) -> None:
    error = refused(lambda: Envelope(invocation=invocation(subject=OTHERS[name]), command=SLEEP))
    assert error.field == "Envelope.invocation.subject"
    assert name in str(error)


@pytest.mark.parametrize("effect_id", ["", " ", "a/b", "x" * 129])
def test_an_effect_without_an_id_is_refused(effect_id: str) -> None:
    subject = EffectSubject(effect_id=effect_id, kind="sleep")
    error = refused(lambda: Envelope(invocation=invocation(subject=subject), command=SLEEP))
    assert error.field == "Envelope.invocation.subject.effect_id"


@pytest.mark.parametrize("kind", [kind for kind in COMMANDS if kind != "sleep"])
def test_a_kind_that_is_not_the_commands_is_refused(kind: EffectKind) -> None:
    subject = EffectSubject(effect_id="e", kind=kind)
    error = refused(lambda: Envelope(invocation=invocation(subject=subject), command=SLEEP))
    assert error.field == "Envelope.invocation.subject.kind"
    assert (error.found, error.wanted) == (kind, "sleep, the command's")


def test_an_empty_replay_key_is_refused() -> None:
    error = refused(lambda: Envelope(invocation=invocation(replay_key=""), command=SLEEP))
    assert error.field == "Envelope.invocation.replay_key"


def test_what_is_no_invocation_or_no_command_is_refused() -> None:
    not_invocation: Any = {"scope": SCOPE}
    not_command: Any = "sleep"
    error = refused(lambda: Envelope(invocation=not_invocation, command=SLEEP))
    assert error.field == "Envelope.invocation"
    error = refused(lambda: Envelope(invocation=invocation(), command=not_command))
    assert (error.field, error.found) == ("Envelope.command", "a str")


def test_stored_bytes_are_refused_alike() -> None:
    written = canonical.encode(envelope(SLEEP))
    changed = written.replace(b'"kind":"sleep"', b'"kind":"process"')
    assert canonical.decode(written, Envelope) == envelope(SLEEP)
    assert "process" in str(refused(lambda: canonical.decode(changed, Envelope)))


@pytest.mark.parametrize("kind", COMMANDS)
def test_every_command_goes_under_the_key_of_its_place(kind: str) -> None:
    whole = envelope(COMMANDS[kind], "e-7")
    assert whole.kind == kind
    assert whole.key == f"s/t/0/1/{kind}/e-7"


def test_an_invocation_of_a_call_names_the_call() -> None:
    made = Invocation.effect(SCOPE, "tool_call", "e", call_ordinal=2, moment="decide")
    assert made.replay_key == "s/t/0/1/tool_call/e/2/decide"
    assert made.subject == EffectSubject(effect_id="e", kind="tool_call")


# --- digests -------------------------------------------------------------------------------------

SPELLED = (
    "s/t/0/1/tool_call/e/0\0"
    '{"args":{"a":1,"b":[2,null]},"call_id":"c","name":"add","type":"tool_call"}'
)


def adding(args: dict[str, Any]) -> Envelope:
    return envelope(ToolCallCommand(call_id="c", name="add", args=args), moment="decide")


def test_a_digest_is_the_sha_256_of_the_spelled_call() -> None:
    whole = adding({"a": 1, "b": [2, None]})
    assert whole.digest() == sha256(SPELLED.encode()).hexdigest()
    key, _, body = SPELLED.partition("\0")
    assert whole.digest() == effect_digest(key, body.encode())


def test_all_moments_of_a_call_have_one_digest() -> None:
    moments: tuple[Moment | None, ...] = (None, "decide", "intent", "result", "presented")
    asked = COMMANDS["tool_call"]
    digests = {envelope(asked, moment=moment).digest() for moment in moments[1:]}
    whole = Invocation.effect(SCOPE, "tool_call", "e", call_ordinal=0)
    assert digests == {Envelope(invocation=whole, command=asked).digest()}


def test_the_key_and_the_command_both_decide_the_digest() -> None:
    """Where the one ends and the other begins is told by NUL, which neither can hold."""
    digests = {effect_digest("a", b"b"), effect_digest("ab", b""), effect_digest("", b"ab")}
    assert len(digests) == 3


def test_a_digest_does_not_depend_on_key_order() -> None:
    assert adding({"a": 1, "b": [2, None]}).digest() == adding({"b": [2, None], "a": 1}).digest()


PROGRAM = """
from tests.journal.builders import COMMANDS, envelope
from tests.journal.golden_journal import VALUES
print(*[envelope(command).digest() for command in COMMANDS.values()], VALUES["Envelope"].digest())
"""


def test_a_digest_does_not_depend_on_the_hash_seed() -> None:
    said = set()
    for seed in ("0", "1", "42", "4294967295"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=HANGS_S,
        )
        said.add(done.stdout)
    here = [envelope(command).digest() for command in COMMANDS.values()]
    assert len(said) == 1
    assert said.pop().split()[:-1] == here


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_decoded_envelope_has_the_same_digest(kind: str) -> None:
    whole = envelope(COMMANDS[kind])
    assert canonical.decode(canonical.encode(whole), Envelope).digest() == whole.digest()


def test_everything_that_decides_what_happens_decides_the_digest() -> None:
    digests = {
        adding({"a": 1}).digest(),
        adding({"a": 1.5}).digest(),
        adding({"a": True}).digest(),
        adding({"a": "1"}).digest(),
        adding({"b": 1}).digest(),
        adding({}).digest(),
    }
    assert len(digests) == 6


# --- requests ------------------------------------------------------------------------------------


def test_a_request_names_its_messages_by_their_chain() -> None:
    spec = RequestSpec.of(request("one", "two"))
    documents = [json.loads(canonical.encode(said(text))) for text in ("one", "two")]
    assert spec == RequestSpec(model="m", messages=chained(documents), message_count=2)


def test_a_request_names_its_tools_by_their_digest() -> None:
    tools = (ToolSpec(name="add"), ToolSpec(name="sub", description="Subtracts."))
    spelled = (
        '[{"name":"add","type":"tool_spec"},'
        '{"description":"Subtracts.","name":"sub","type":"tool_spec"}]'
    )
    spec = RequestSpec.of(request("one", tools=tools))
    assert spec.tools == sha256(spelled.encode()).hexdigest()
    assert RequestSpec.of(request("one", tools=(ToolSpec(name="add"),))).tools != spec.tools
    assert RequestSpec.of(request("one")).tools is None


def test_a_request_keeps_everything_else_as_it_is() -> None:
    generation = Generation(temperature=0.5, stop=("END",))
    spec = RequestSpec.of(
        request(
            "one",
            tool_choice="required",
            variant="deep",
            generation=generation,
            session_id="s",
            output={"type": "object"},
        )
    )
    assert (spec.model, spec.message_count) == ("m", 1)
    assert (spec.tool_choice, spec.variant, spec.generation) == ("required", "deep", generation)
    assert (spec.session_id, spec.output) == ("s", {"type": "object"})


def test_only_a_request_has_a_spec() -> None:
    bad: Any = {"model": "m"}
    assert refused(lambda: RequestSpec.of(bad)).field == "request"


def test_equal_messages_give_one_digest_however_they_came_together() -> None:
    grown: Chain[ModelMessage] = Chain()
    for text in ("one", "two", "three"):
        grown = grown.append(said(text))
        RequestSpec.of(ModelRequest(model="m", messages=grown))
    at_once = RequestSpec.of(request("one", "two", "three"))
    assert RequestSpec.of(ModelRequest(model="m", messages=grown)) == at_once
    assert RequestSpec.of(request("one", "three", "two")).messages != at_once.messages


def test_the_tools_of_many_agents_are_told_apart() -> None:
    """More than are remembered at a time: what is forgotten is computed again, to the same end."""
    agents = [(ToolSpec(name=f"tool_{at}"),) for at in range(100)]
    first = [RequestSpec.of(request("hi", tools=tools)).tools for tools in agents]
    again = [RequestSpec.of(request("hi", tools=tools)).tools for tools in agents]
    assert first == again == [canonical.digest(tools) for tools in agents]
    assert len(set(first)) == 100


def digests_taken(message_count: int) -> int:
    """Count the digests that the next request of a turn costs after so many messages."""
    tools = (ToolSpec(name="add"),)
    history = Chain(said(f"message {at}") for at in range(message_count))
    ModelCallCommand.of(ModelRequest(model="m", messages=history, tools=tools))
    longer = history.append(said("new")).append(said("newer"))
    counted = 0

    def watch(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal counted
        counted += event == "call" and frame.f_code is canonical.digest.__code__

    watcher = sys.getprofile()
    sys.setprofile(watch)
    try:
        ModelCallCommand.of(ModelRequest(model="m", messages=longer, tools=tools))
    finally:
        sys.setprofile(watcher)
    return counted


def test_the_next_request_costs_what_is_new_in_it() -> None:
    """Two new messages are two digests, after 10 messages as after 2,000; the tools cost nothing."""
    assert digests_taken(10) == 2
    assert digests_taken(2_000) == 2
