"""Reads the events of Anthropic's stream into a reply.

Law 1. There is a reply only after `message_stop`. Until then neither text nor calls count.
Law 2. Blocks stand in the order of their numbers; what is unknown is passed over and named, what contradicts itself
    is malformed.
Law 3. A turn that the provider paused goes on with the next stream: its reply is that of all of them, in order.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from windlass.kernel import Json
from windlass.kernel.model_call import KnownTerminal, ModelReply, ReplyPart, Usage
from windlass.models.anthropic.answer import AnswerTool
from windlass.models.anthropic.blocks import Block
from windlass.models.anthropic.server_tools import is_result
from windlass.models.message_parts import ran_elsewhere, text_at
from windlass.models.provider_errors import clip, cut_off, from_error_object, malformed
from windlass.models.route import Route, replay_blob
from windlass.models.usage_report import UsageReport
from windlass.ports.model import EmitModelEvent

_PROVIDER = "anthropic"
_PAUSED = "pause_turn"
_TERMINALS: dict[str, KnownTerminal] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_use",
    "max_tokens": "output_limit",
    "refusal": "content_filter",
    "model_context_window_exceeded": "context_overflow",
}
_THOUGHTS = ("thinking", "redacted_thinking")
# By a delta's type: the kinds of block that it continues, and its field.
_DELTAS = {
    "text_delta": (("text",), "text"),
    "thinking_delta": (("thinking",), "thinking"),
    "signature_delta": (("thinking",), "signature"),
    "input_json_delta": (("tool_use", "server_tool_use", "mcp_tool_use"), "partial_json"),
    "citations_delta": (("text",), "citation"),
}
_KINDS = frozenset(kind for kinds, _ in _DELTAS.values() for kind in kinds)


class StreamReader:
    """Takes events one by one; `reply` is there once `is_over`.

    `answer_tool` is a tool whose arguments are the answer: its call becomes text.
    """

    def __init__(
        self, route: Route, emit: EmitModelEvent, *, answer_tool: AnswerTool | None
    ) -> None:
        self._route = route
        self._emit = emit
        self._answer_tool = answer_tool
        self._hidden = None if answer_tool is None else answer_tool.name
        self._earlier: list[Block] = []
        self._earlier_usage = Usage()
        self._earlier_counts: Json = None
        self._left_out: set[str] = set()
        self._begin()

    def _begin(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._usage = UsageReport(self._route)
        self._stop: dict[str, Any] = {}
        self._is_begun = False
        self.is_over = False

    def take(self, event: dict[str, Any] | None) -> None:
        """Read one event; what comes behind the last one is nothing.

        Raises:
            ProviderError: it says that there will be no reply, or cannot be understood.
        """
        if self.is_over or event is None:
            return
        kind = event.get("type")
        if kind == "error":
            raise from_error_object(event.get("error"), provider=_PROVIDER)
        read = _READERS.get(kind) if isinstance(kind, str) else None
        if read is not None:
            read(self, event)

    def _message_start(self, event: dict[str, Any]) -> None:
        if self._is_begun:
            raise malformed(_PROVIDER, "a second message began in one reply")
        self._is_begun = True
        message = _part(event, "message")
        self._add_usage(message, served=message.get("model"))

    def _block_start(self, event: dict[str, Any]) -> None:
        at = _number(event)
        if at in self._blocks:
            raise malformed(_PROVIDER, "one block of a reply began twice")
        self._blocks[at] = Block(_part(event, "content_block"), self._emit, hidden=self._hidden)

    def _block_delta(self, event: dict[str, Any]) -> None:
        block = self._open_block(event)
        delta = _part(event, "delta")
        kind = delta.get("type")
        if kind not in _DELTAS:
            return
        wanted, field = _DELTAS[kind]
        if block.kind not in wanted and block.kind in _KINDS:
            raise malformed(_PROVIDER, "a block was continued as one of another kind")
        if kind == "citations_delta":
            block.cite(delta.get(field))
        elif kind == "signature_delta":
            block.sign(text_at(delta, field))
        else:
            block.add(text_at(delta, field))

    def _block_stop(self, event: dict[str, Any]) -> None:
        self._open_block(event).is_whole = True

    def _open_block(self, event: dict[str, Any]) -> Block:
        block = self._blocks.get(_number(event))
        if block is None or block.is_whole:
            raise malformed(_PROVIDER, "a block was continued that is not open")
        return block

    def _message_delta(self, event: dict[str, Any]) -> None:
        self._stop.update({key: value for key, value in _part(event, "delta").items() if value})
        self._add_usage(event)

    def _message_stop(self, _event: dict[str, Any]) -> None:
        self.is_over = True

    def _add_usage(self, owner: dict[str, Any], *, served: object = None) -> None:
        """Counts are sums so far; one that is null says nothing."""
        found = owner.get("usage")
        if isinstance(found, dict):
            found = {key: value for key, value in found.items() if value is not None}
        self._usage.take(found, served=served)

    # --- a pause ----------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Whether the provider stopped in the middle of its own tools, and wants to be asked to go on."""
        return self.is_over and self._stop.get("stop_reason") == _PAUSED

    def go_on(self) -> dict[str, Any] | None:
        """Make ready for the stream that goes on; return what the request has more for it. None: nothing was said.

        Raises:
            ProviderError: what was read contradicts itself.
        """
        _, blocks = self._whole()
        content = [sent for block in blocks if (sent := block.sent_back()) is not None]
        while content and content[-1]["type"] in _THOUGHTS:
            content.pop()
        if not content:
            return None
        more: dict[str, Any] = {"content": content}
        container = text_at(self._stop.get("container"), "id")
        if container:
            more["container"] = container
        self._earlier = blocks
        self._earlier_usage = self._used()
        self._earlier_counts = self._counts()
        self._begin()
        return more

    # --- the reply --------------------------------------------------------------------------------

    def reply(self) -> ModelReply:
        """Return the reply.

        Raises:
            ProviderError: the stream ended before the reply did, or contradicts itself.
        """
        if not self.is_over:
            raise cut_off(_PROVIDER)
        reason, blocks = self._whole()
        parts = self._parts(blocks)
        terminal = _TERMINALS.get(reason) or clip(reason)
        if self._answer_tool is not None:
            parts, terminal = self._answer_tool.read(parts, terminal)
        return ModelReply(
            parts=tuple(parts),
            usage=self._used(),
            terminal=terminal,
            diagnostic=self._diagnostic(reason, parts),
            provider_usage=self._counts(),
        )

    def _whole(self) -> tuple[str, list[Block]]:
        """Return why the stream ended, and all blocks up to here."""
        reason = self._stop.get("stop_reason")
        blocks = [self._blocks[at] for at in sorted(self._blocks)]
        if not isinstance(reason, str) or not all(block.is_whole for block in blocks):
            raise malformed(_PROVIDER, "a reply ended that was not whole")
        return reason, [*self._earlier, *blocks]

    def _parts(self, blocks: list[Block]) -> list[ReplyPart]:
        """Return the parts in their order. A result joins the call before it: so it goes back as it came.

        Results of calls that ran side by side all come behind the last of them, and stay there.
        """
        parts: list[ReplyPart] = []
        run: list[dict[str, Any]] = []
        for block in blocks:
            if not block.runs_at_the_provider:
                run = []
                part = block.part(self._route)
                if part is not None:
                    parts.append(part)
                elif block.kind != "text":
                    self._left_out.add(str(block.kind))
                continue
            sent = block.sent_back()
            if not (run and is_result(block.start)):
                run = []
                parts.append(block.server_part())
            if sent is not None:
                run.append(sent)
                parts[-1] = replace(parts[-1], replay=replay_blob(run, self._route))
        return parts

    def _used(self) -> Usage:
        return self._earlier_usage + _usage(self._usage)

    def _counts(self) -> Json:
        counts = self._usage.provider_usage()
        return counts if self._earlier_counts is None else _added(self._earlier_counts, counts)

    def _diagnostic(self, reason: str, parts: list[ReplyPart]) -> str | None:
        told = text_at(self._stop.get("stop_details"), "explanation")
        if told:
            return clip(told)
        said = ran_elsewhere(parts)
        if self._left_out:
            said.append(f"left out of the reply: {', '.join(sorted(self._left_out))}")
        elif not parts:
            said.append(f"an empty reply, which ended with {reason}")
        served = self._usage.other_model
        if served is not None and not served.startswith(self._route.model):
            said.append(f"answered by {served}")
        return clip("; ".join(said)) if said else None


_READERS = {
    "message_start": StreamReader._message_start,  # noqa: SLF001 - its own table
    "content_block_start": StreamReader._block_start,  # noqa: SLF001
    "content_block_delta": StreamReader._block_delta,  # noqa: SLF001
    "content_block_stop": StreamReader._block_stop,  # noqa: SLF001
    "message_delta": StreamReader._message_delta,  # noqa: SLF001
    "message_stop": StreamReader._message_stop,  # noqa: SLF001
}


def _usage(report: UsageReport) -> Usage:
    return Usage(
        input_tokens=report.count("input_tokens"),
        output_tokens=report.count("output_tokens"),
        cached_input_tokens=report.count("cache_read_input_tokens"),
        cache_write_tokens=report.count("cache_creation_input_tokens"),
        reasoning_tokens=report.count("thinking_tokens", of="output_tokens_details"),
    )


def _added(one: Json, other: Json) -> Json:
    """Return two reports of usage as one: numbers are added, of anything else the later counts."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: _added(one.get(key), value) for key, value in other.items()}}
    if type(one) is int and type(other) is int:
        return one + other
    return one if other is None else other


def _part(owner: dict[str, Any], field: str) -> dict[str, Any]:
    found = owner.get(field)
    if not isinstance(found, dict):
        raise malformed(_PROVIDER, f"an event without its {field}")
    return found


def _number(event: dict[str, Any]) -> int:
    found = event.get("index")
    if type(found) is not int:
        raise malformed(_PROVIDER, "a block without its number")
    return found
