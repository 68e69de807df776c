"""What a turn hands to its store: the units of a turn with `once` tools, as a worker would write them."""

from __future__ import annotations

from typing import NamedTuple

from windlass.journal import (
    CallDecided,
    CallReturned,
    Claimed,
    Command,
    Envelope,
    Invocation,
    ModelAnswered,
    ModelCallCommand,
    Moment,
    Recorded,
    RequestSpec,
    Scope,
    ToolCallCommand,
    ToolHooksCommand,
    TurnStarted,
    kind_of,
)
from windlass.kernel import (
    ConversationRecord,
    Finished,
    Message,
    ModelReply,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    Usage,
)
from windlass.ports import NewTurn, Start, Store, TurnCommit, TurnRequest, Unit

# 200 characters of question and result, 400 of answer.
_RESULT = ("The tide turns twice a day, and the windlass holds what was won. " * 4)[:200]
_ANSWER = _RESULT * 2
_DIGEST = "5f" * 32
_FAR_MS = 10**15


class TurnPlace(NamedTuple):
    """A turn that a worker has begun."""

    session_id: str
    turn_id: str
    turn_index: int = 1
    generation: int = 1


def _envelope(
    place: TurnPlace, iteration: int, effect: str, command: Command, moment: Moment | None = None
) -> Envelope:
    scope = Scope(
        session_id=place.session_id,
        turn_id=place.turn_id,
        turn_index=place.turn_index,
        iteration=iteration,
    )
    ordinal = None if moment is None else 0
    return Envelope(
        invocation=Invocation.effect(
            scope, kind_of(command), effect, call_ordinal=ordinal, moment=moment
        ),
        command=command,
    )


def _call(iteration: int) -> ToolCall:
    return ToolCall(call_id=f"call_{iteration:024}", name="sound", args={"i": iteration})


def _reply(place: TurnPlace, iteration: int, answer: str | None = None) -> Recorded:
    spec = RequestSpec(
        model="bench/model", messages=_DIGEST, message_count=2 * iteration + 1, tools=_DIGEST
    )
    command = ModelCallCommand(request=spec)
    usage = Usage(input_tokens=1_200, output_tokens=40)
    if answer is None:
        reply = ModelReply(parts=(_call(iteration),), usage=usage, terminal="tool_use")
    else:
        reply = ModelReply(text=answer, usage=usage)
    envelope = _envelope(place, iteration, f"{3 * iteration + 1}", command)
    return Recorded.of(envelope, ModelAnswered(result=reply))


def _intent(place: TurnPlace, iteration: int) -> Claimed:
    call = _call(iteration)
    command = ToolCallCommand(call_id=call.call_id, name=call.name, args=call.args)
    envelope = _envelope(place, iteration, f"{3 * iteration + 2}", command, "intent")
    return Claimed.of(envelope, contract="once")


def _result(intent: Claimed) -> Recorded:
    """Return the result of a call: it is recorded under the digest of its intent."""
    return Recorded(
        key=intent.key.removesuffix("intent") + "result",
        digest=intent.digest,
        outcome=CallReturned(outcome=ToolOutcome(value=_RESULT), duration_ms=3),
    )


def _asking(place: TurnPlace, iteration: int) -> tuple[Recorded, Recorded, Claimed]:
    """Return what an iteration writes before its tool runs: the reply, the decision, the intent."""
    call = _call(iteration)
    hooks = ToolHooksCommand(call_id=call.call_id, name=call.name, subject=_DIGEST)
    decided = Recorded.of(
        _envelope(place, iteration, f"{3 * iteration + 2}", hooks, "decide"),
        CallDecided(args=call.args, policy_version="1"),
    )
    return _reply(place, iteration), decided, _intent(place, iteration)


def opening_unit(place: TurnPlace, worker_id: str) -> Unit:
    """Return the first unit of a turn: accepted, begun, with its start record and first intent."""
    started = TurnStarted(agent="bench", model="bench/model", history=place.turn_index)
    return Unit(
        session_id=place.session_id,
        turn_id=place.turn_id,
        generation=place.generation,
        accept=NewTurn(agent="bench", request=TurnRequest(input=(Text(text=_RESULT),))),
        start=Start(worker_id=worker_id, until_ms=_FAR_MS),
        entries=(started, *_asking(place, 0)),
    )


class OpenTurn:
    """A turn that has begun: it makes the units of one iteration after the other."""

    def __init__(self, place: TurnPlace) -> None:
        self._place = place
        self._position = 0
        self._intent = _intent(place, 0)

    def next_unit(self) -> Unit:
        """Return the unit of an iteration: the result of the call before, reply, decision, intent."""
        place = self._place
        self._position += 1
        asking = _asking(place, self._position)
        result = _result(self._intent)
        self._intent = asking[-1]
        return Unit(
            session_id=place.session_id,
            turn_id=place.turn_id,
            generation=place.generation,
            position=self._position,
            entries=(result, *asking),
        )

    def units(self, n: int) -> list[Unit]:
        """Return the units of so many iterations."""
        return [self.next_unit() for _ in range(n)]


def closing_unit(place: TurnPlace) -> Unit:
    """Return the last unit of a turn with one call: its result, the answer, and the commit of four messages."""
    call = _call(0)
    result = ToolResult(call_id=call.call_id, name=call.name, content=(Text(text=_RESULT),))
    name = place.turn_id
    messages = (
        Message(id=f"q-{name}", role="user", parts=(Text(text=_RESULT),)),
        Message(id=f"c-{name}", role="assistant", parts=(call,)),
        Message(id=f"r-{name}", role="user", parts=(result,)),
        Message(id=f"a-{name}", role="assistant", parts=(Text(text=_ANSWER),)),
    )
    return Unit(
        session_id=place.session_id,
        turn_id=place.turn_id,
        generation=place.generation,
        position=1,
        entries=(_result(_intent(place, 0)), _reply(place, 1, _ANSWER)),
        commit=TurnCommit(
            expected_head=place.turn_index - 1,
            nodes=tuple(ConversationRecord(message=each) for each in messages),
            outcome=Finished(text=_ANSWER),
        ),
    )


async def begin_turn(store: Store, worker_id: str, session_id: str) -> OpenTurn:
    """Begin the first turn of a new session."""
    place = TurnPlace(session_id, "t1")
    await store.submit(opening_unit(place, worker_id)).durable()
    return OpenTurn(place)


async def whole_turn(store: Store, worker_id: str, session_id: str, number: int) -> None:
    """Run the turn of this number, from 1 on, with one tool call: two units."""
    place = TurnPlace(session_id, f"t{number}", number)
    await store.submit(opening_unit(place, worker_id)).durable()
    await store.submit(closing_unit(place)).durable()
