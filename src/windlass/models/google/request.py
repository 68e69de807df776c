"""A request as Gemini takes it: contents of two roles, and the configuration beside them.

Law 1. A signature goes back on the very part that it came with, to the route that made it.
Law 2. Results come first in their message: Gemini wants them right behind the calls.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.kernel import Attachment, Reasoning, Text, ToolCall, ToolResult, ToolSpec, thaw
from windlass.kernel.model_call import Generation, ModelMessage, ModelRequest, RequestPart
from windlass.models.capabilities import Capabilities, stated
from windlass.models.message_parts import attached_words, bytes_of, result_words, schema_words
from windlass.models.route import Route, own_blob

# A call that this route did not make has no signature, and Gemini 3 refuses the request without one.
# https://ai.google.dev/gemini-api/docs/thought-signatures
_NOT_MINE = b"skip_thought_signature_validator"
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


class Asked(NamedTuple):
    """What the SDK is given: `contents` and `config`."""

    contents: list[dict[str, Any]]
    config: dict[str, Any]


async def ask_of(request: ModelRequest, route: Route, can: Capabilities) -> Asked:
    """Return a request as the SDK takes it.

    Raises:
        InvalidInput: it asks for a variant that the model does not have, or an attachment cannot be read.
    """
    system: list[str] = []
    contents: list[dict[str, Any]] = []
    for message in request.messages:
        if message.role == "system":
            system += [part.text for part in message.parts if isinstance(part, Text)]
            continue
        if message.role == "assistant":
            role, parts = "model", _said(message.parts, route)
        else:
            role, parts = "user", await _given(message, can)
        if parts and contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    return Asked(contents, _config(request, system, route, can))


# --- what the model said -----------------------------------------------------------------------


def signature_blob(signature: bytes, *, on: str) -> dict[str, str]:
    """Return a signature as it is stored: as text, with the kind of part that it was on."""
    return {"on": on, "signature": b64encode(signature).decode()}


def _signature(replay: object, route: Route, *kinds: str) -> bytes | None:
    blob = own_blob(replay, route)
    if not isinstance(blob, dict) or blob.get("on") not in kinds:
        return None
    return b64decode(str(blob.get("signature", "")))


def _said(parts: Sequence[RequestPart], route: Route) -> list[dict[str, Any]]:
    """Return an assistant's parts; thoughts only with the signature that this route gave them."""
    said: list[dict[str, Any]] = []
    of_next_text: bytes | None = None
    must_sign = True
    for part in parts:
        if isinstance(part, Text):
            said.append(_signed({"text": part.text}, of_next_text))
            of_next_text = None
        elif isinstance(part, Reasoning):
            of_next_text = _signature(part.replay, route, "text") or of_next_text
            own = _signature(part.replay, route, "thought")
            if own is not None:
                said.append(_signed({"text": part.text, "thought": True}, own))
        elif isinstance(part, ToolCall):
            call = {"id": part.call_id, "name": part.name, "args": thaw(part.args)}
            own = _signature(part.replay, route, "call")
            # Of calls that were made at once, only the first is signed.
            said.append(_signed({"function_call": call}, own or (_NOT_MINE if must_sign else None)))
            must_sign = False
    return said


def _signed(part: dict[str, Any], signature: bytes | None) -> dict[str, Any]:
    return part if signature is None else {**part, "thought_signature": signature}


# --- what the model is given -------------------------------------------------------------------


async def _given(message: ModelMessage, can: Capabilities) -> list[dict[str, Any]]:
    """Return a user's parts: results, then what is to be seen with them, then everything else."""
    results: list[dict[str, Any]] = []
    seen: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            results.append(_result(part))
            shown = [each for each in part.content if isinstance(each, Attachment)]
            if can.result_images:
                seen += [await _inline(each) for each in shown if can.taken_as(each.media_type)]
        elif isinstance(part, Attachment):
            others.append(await _attached(part, can))
        elif isinstance(part, Text):
            others.append({"text": part.text})
    return results + seen + others


def _result(result: ToolResult) -> dict[str, Any]:
    field = "output" if result.status == "ok" else "error"
    response = {field: result_words(result)}
    answer = {"id": result.call_id, "name": result.name, "response": response}
    return {"function_response": answer}


async def _attached(attachment: Attachment, can: Capabilities) -> dict[str, Any]:
    if can.taken_as(attachment.media_type):
        return await _inline(attachment)
    return {"text": await attached_words(attachment)}


async def _inline(attachment: Attachment) -> dict[str, Any]:
    data = await bytes_of(attachment)
    return {"inline_data": {"mime_type": attachment.media_type, "data": data}}


# --- configuration -----------------------------------------------------------------------------


def _config(
    request: ModelRequest, system: list[str], route: Route, can: Capabilities
) -> dict[str, Any]:
    config: dict[str, Any] = {
        # The runtime calls tools and asks again; the SDK does neither.
        "automatic_function_calling": {"disable": True},
        "automatic_continuation": False,
        **_generation(request.generation, can),
        **_thinking(request, route, can),
    }
    tools = request.tools if can.tools else ()
    if tools:
        config["tools"] = [{"function_declarations": [_declaration(tool) for tool in tools]}]
        if request.tool_choice != "auto":
            mode = _MODES[request.tool_choice]
            config["tool_config"] = {"function_calling_config": {"mode": mode}}
    if request.output is not None:
        if can.structured_output == "native" and (can.structured_with_tools or not tools):
            config["response_mime_type"] = "application/json"
            config["response_json_schema"] = thaw(request.output)
        else:
            system = [*system, schema_words(request.output)]
    if system:
        config["system_instruction"] = "\n\n".join(system)
    return config


def _declaration(tool: ToolSpec) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.parameters.get("properties"):
        declared["parameters_json_schema"] = thaw(tool.parameters)
    return declared


def _generation(wanted: Generation, can: Capabilities) -> dict[str, Any]:
    config = {
        "seed": wanted.seed,
        "stop_sequences": list(wanted.stop) or None,
        "max_output_tokens": can.output_limit(wanted),
    }
    return {**stated(config), **can.sampling_of(wanted)}


def _thinking(request: ModelRequest, route: Route, can: Capabilities) -> dict[str, Any]:
    effort = can.effort(request.variant, model=f"{route.provider}:{route.model}")
    if can.reasoning == "none":
        return {}
    thinking: dict[str, Any] = {"include_thoughts": effort != 0}
    if isinstance(effort, int):
        thinking["thinking_budget"] = effort
    elif effort is not None:
        thinking["thinking_level"] = effort
    return {"thinking_config": thinking}
