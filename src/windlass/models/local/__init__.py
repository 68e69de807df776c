"""A real language model with no key and no server, for trying things and for tests.

It is small: 135 million parameters. It answers in sentences, and they are often wrong; it calls tools with
arguments that fit their schemas, and often calls the wrong one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from windlass.errors import ConfigError, ProviderError, Rejected
from windlass.guards.text import clean_text
from windlass.kernel import Generation, Json, ModelReply, ModelRequest, ToolCall, Usage, canonical
from windlass.models.capabilities import capabilities_of, stated
from windlass.models.local import prompt
from windlass.models.local.engine import PROVIDER, Generated, engine_of
from windlass.models.local.weights import find_weights, how_to_get, weights_named
from windlass.models.names import check_installed
from windlass.models.provider_errors import reply_to_refusal
from windlass.ports.model import EmitModelEvent, TextChunk

CONTEXT_TOKENS = 4096
MAX_OUTPUT_TOKENS = 256
_ABLE = capabilities_of(PROVIDER, "")


class LocalModel:
    """A small language model that runs in this process, on one thread. For trying things and for tests.

    `LocalModel("smollm2")` is SmolLM2-135M-Instruct. `windlass models get smollm2` brings its weights.
    At temperature 0, which is the default here, the same request gets the same reply. A reply ends after 256
    tokens unless `Generation.max_output_tokens` says otherwise; a request and its reply share 4,096.
    The first reply loads the weights, which holds the process for about a second; all models of one file share them.
    """

    def __init__(
        self,
        model: str = "smollm2",
        *,
        weights: Path | None = None,
        context_tokens: int = CONTEXT_TOKENS,
    ) -> None:
        check_installed(PROVIDER)
        known = weights_named(model)
        path = find_weights(known) if weights is None else weights
        if path is None or not path.is_file():
            how = how_to_get(known)
            told = f"model: the weights of {model} are not here; get them with: {how}"
            raise ConfigError(told, field="model", wanted=how)
        self.name = f"{PROVIDER}:{model}"
        self._about = known.title
        self._engine = engine_of(path.absolute(), context_tokens)

    def describe(self) -> str:
        """Say what it is, for people who choose."""
        return (
            f"{self._about}, run by llama.cpp in this process on one thread. For trying things and for "
            "tests: it is small, and often wrong."
        )

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Answer a request; words are shown as they are written.

        Raises:
            ProviderError: the engine refused, or failed.
            InvalidInput: the request names a variant, or a tool of a provider; this model has none.
        """
        _ABLE.effort(request.variant, model=self.name)
        _ABLE.server_tools(request, provider=PROVIDER)
        reply = _Reply(request, emit)
        body = {"messages": prompt.messages_of(request), **_options(request.generation)}
        try:
            generated = await self._engine.generate(body, prompt.schema_of(request), reply.take)
        except ProviderError as error:
            return reply_to_refusal(error)
        return reply.made(generated)

    async def aclose(self) -> None:
        """Do nothing: the weights stay for the next model of this process."""


def _options(generation: Generation) -> dict[str, Json]:
    return stated(
        {
            "stream": True,
            "stream_options": {"include_usage": True},
            # Chunks without words, while the prompt is read: there it can be stopped.
            "return_progress": True,
            "temperature": generation.temperature or 0.0,
            "top_p": generation.top_p,
            "max_tokens": generation.max_output_tokens or MAX_OUTPUT_TOKENS,
            "seed": generation.seed,
            "stop": list(generation.stop) or None,
        }
    )


class _Reply:
    """A reply as it is written: words are shown, a choice between answer and call is read."""

    def __init__(self, request: ModelRequest, emit: EmitModelEvent) -> None:
        self._request = request
        self._emit = emit
        self._reader = prompt.AnswerReader()
        self._is_choice = bool(prompt.offered_tools(request))
        self._words: list[str] = []

    def take(self, piece: str) -> None:
        """Take what was written, and show what of it is for the user."""
        if self._is_choice:
            # An answer that has to be a value of a certain shape is shown when it is whole.
            words = self._reader.feed(piece)
            words = words if self._request.output is None else ""
        else:
            words = clean_text(piece)
        self._say(words)

    def _say(self, words: str) -> None:
        if words:
            self._words.append(words)
            self._emit(TextChunk(text=words))

    def made(self, generated: Generated) -> ModelReply:
        """Return the whole reply.

        Raises:
            Rejected: the engine did not keep the schema.
        """
        chosen = self._chosen() if self._is_choice else None
        call = chosen if isinstance(chosen, ToolCall) else None
        text = "".join(self._words)
        is_cut = generated.finish == "length" and chosen is None
        return ModelReply(
            text=text,
            parts=() if call is None else (call,),
            terminal="output_limit" if is_cut else "stop" if call is None else "tool_use",
            usage=_usage(generated.usage),
            provider_usage=generated.usage,
        )

    def _chosen(self) -> ToolCall | Literal["answer"] | None:
        """Return what the model chose; None if that is cut. An answer not said yet is said now.

        Raises:
            Rejected: it wrote something else.
        """
        written = self._reader.written
        found = prompt.read_object(written)
        if found is None and written.lstrip()[:1] not in ("{", ""):
            told = f"{PROVIDER}: the engine cannot hold a reply to the schemas of these tools"
            raise Rejected(told, field="tools")
        if found is None:
            return None
        if prompt.TOOL in found:
            return self._call(found)
        if self._request.output is not None:
            self._say(canonical.encode(found.get(prompt.ANSWER)).decode())
        return "answer"

    def _call(self, found: dict[str, Json]) -> ToolCall:
        args = found.get(prompt.ARGUMENTS)
        args = args if isinstance(args, dict) else {}
        return ToolCall(
            call_id=f"call_{canonical.digest(self._request)[:16]}",
            name=str(found[prompt.TOOL]),
            args=args,
            raw=canonical.encode(args).decode(),
        )


def _usage(found: dict[str, Json]) -> Usage:
    cached = (found.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Usage(
        input_tokens=max(0, (found.get("prompt_tokens") or 0) - cached),
        cached_input_tokens=cached,
        output_tokens=found.get("completion_tokens") or 0,
    )
