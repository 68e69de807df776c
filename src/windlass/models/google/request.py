"""A request as Gemini takes it: contents of two roles, tools, and the configuration beside them.

Law 1. A signature goes back on the very part that it came with, to the route that made it. So do the parts of a tool
    that Gemini ran by itself.
Law 2. Results come first in their message: Gemini wants them right behind the calls.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from windlass.errors import InvalidInput
from windlass.kernel import (
    Attachment,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    WebSearch,
    thaw,
)
from windlass.kernel.model_call import Generation, ModelMessage, ModelRequest, RequestPart
from windlass.kernel.value import Json
from windlass.models.capabilities import Capabilities, stated
from windlass.models.message_parts import attached_words, bytes_of, result_words, schema_words
from windlass.models.route import Route, own_blob

VERTEX = "vertex"

# A call that this route did not make has no signature, and Gemini 3 refuses the request without one.
# https://ai.google.dev/gemini-api/docs/thought-signatures
_NOT_MINE = b64encode(b"skip_thought_signature_validator").decode()
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


async def body_of(request: ModelRequest, route: Route, can: Capabilities) -> dict[str, Any]:
    """Return the body of a request.

    Raises:
        InvalidInput: it asks for a variant or a tool that the model does not have, or an attachment cannot be read.
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
            role, parts = "user", await _given(message, route, can)
        if parts and contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    tools = _tools(request, route, can)
    if request.output is not None and not _is_held(request, can, tools):
        system.append(schema_words(request.output))
    body: dict[str, Any] = {
        "contents": contents,
        "systemInstruction": {"parts": [{"text": "\n\n".join(system)}]} if system else None,
        "tools": tools or None,
        "toolConfig": _tool_config(request, route, contents, tools) or None,
        "generationConfig": _generation(request, route, can, tools) or None,
    }
    return stated(body)


# --- what the model said -----------------------------------------------------------------------


def signature_blob(signature: str, *, on: str) -> Json:
    """Return a signature as it is stored: with the kind of part that it was on."""
    return {"on": on, "signature": signature}


def server_blob(parts: Sequence[dict[str, Any]]) -> Json:
    """Return the parts of a tool that Gemini ran by itself as they are stored: as they came, signatures and all."""
    return {"on": "server", "parts": list(parts)}


def _own(replay: object, route: Route, kind: str, field: str) -> Any:  # noqa: ANN401 - text, or parts
    blob = own_blob(replay, route)
    return blob.get(field) if isinstance(blob, dict) and blob.get("on") == kind else None


def _said(parts: Sequence[RequestPart], route: Route) -> list[dict[str, Any]]:
    """Return an assistant's parts; thoughts only with the signature that this route gave them."""
    said: list[dict[str, Any]] = []
    of_next_text: str | None = None
    must_sign = True
    for part in parts:
        if isinstance(part, Text):
            own = _own(part.replay, route, "text", "signature") or of_next_text
            said.append(_signed({"text": part.text}, own))
            of_next_text = None
        elif isinstance(part, Reasoning):
            # Words had no place for a signature once: it stood on a thought before them.
            of_next_text = _own(part.replay, route, "text", "signature") or of_next_text
            own = _own(part.replay, route, "thought", "signature")
            if own is not None:
                said.append(_signed({"text": part.text, "thought": True}, own))
        elif isinstance(part, ToolCall):
            call = {"name": part.name, "args": thaw(part.args), **_id(part.call_id, route)}
            own = _own(part.replay, route, "call", "signature")
            # Of calls that were made at once, only the first is signed.
            said.append(_signed({"functionCall": call}, own or (_NOT_MINE if must_sign else None)))
            must_sign = False
        elif isinstance(part, ServerToolCall):
            said += thaw(_own(part.replay, route, "server", "parts") or ())
    return said


def _signed(part: dict[str, Any], signature: str | None) -> dict[str, Any]:
    return part if signature is None else {**part, "thoughtSignature": signature}


def _id(call_id: str, route: Route) -> dict[str, str]:
    """Return the id of a call as a field. Much of Vertex does not know it, and matches results by their order."""
    return {} if route.provider == VERTEX else {"id": call_id}


# --- what the model is given -------------------------------------------------------------------


async def _given(message: ModelMessage, route: Route, can: Capabilities) -> list[dict[str, Any]]:
    """Return a user's parts: results, then what is to be seen with them, then everything else."""
    results: list[dict[str, Any]] = []
    seen: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            results.append(_result(part, route))
            shown = [each for each in part.content if isinstance(each, Attachment)]
            if can.result_images:
                seen += [await _inline(each) for each in shown if can.taken_as(each.media_type)]
        elif isinstance(part, Attachment):
            others.append(await _attached(part, can))
        elif isinstance(part, Text):
            others.append({"text": part.text})
    return results + seen + others


def _result(result: ToolResult, route: Route) -> dict[str, Any]:
    field = "output" if result.status == "ok" else "error"
    response = {field: result_words(result)}
    answer = {"name": result.name, "response": response, **_id(result.call_id, route)}
    return {"functionResponse": answer}


async def _attached(attachment: Attachment, can: Capabilities) -> dict[str, Any]:
    if can.taken_as(attachment.media_type):
        return await _inline(attachment)
    return {"text": await attached_words(attachment)}


async def _inline(attachment: Attachment) -> dict[str, Any]:
    data = b64encode(await bytes_of(attachment)).decode()
    return {"inlineData": {"mimeType": attachment.media_type, "data": data}}


# --- tools -------------------------------------------------------------------------------------


def _tools(request: ModelRequest, route: Route, can: Capabilities) -> list[dict[str, Any]]:
    """Return what the model may call, and what its provider may run by itself."""
    run = can.server_tools(request, provider=route.provider)
    tools: list[dict[str, Any]] = []
    if run.search is not None:
        tools.append({"googleSearch": _search(run.search, route)})
    tools += run.specs
    if request.tools and can.tools:
        tools.append({"functionDeclarations": [_declaration(tool) for tool in request.tools]})
    return tools


def _search(wanted: WebSearch, route: Route) -> dict[str, Any]:
    """Return a search of the web as Google takes it.

    Raises:
        InvalidInput: it is limited in a way that Google's search cannot be.
    """
    refused = {"max_uses": wanted.max_uses, "allowed_domains": wanted.allowed_domains}
    if route.provider != VERTEX:
        refused["blocked_domains"] = wanted.blocked_domains
    for name, found in refused.items():
        if found:
            told = f"none: the search of {route.provider} takes no such limit"
            raise InvalidInput.at(f"WebSearch.{name}", "a limit", told)
    return {"excludeDomains": list(wanted.blocked_domains)} if wanted.blocked_domains else {}


def _declaration(tool: ToolSpec) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.parameters.get("properties"):
        declared["parametersJsonSchema"] = thaw(tool.parameters)
    return declared


def _tool_config(
    request: ModelRequest,
    route: Route,
    contents: list[dict[str, Any]],
    tools: list[dict[str, Any]],
) -> dict[str, Any]:
    config: dict[str, Any] = {}
    declares = any("functionDeclarations" in tool for tool in tools)
    if declares and request.tool_choice != "auto":
        config["functionCallingConfig"] = {"mode": _MODES[request.tool_choice]}
    # The Gemini API takes both kinds of tools together only if it may show its own, and see them again.
    if route.provider != VERTEX and ((declares and len(tools) > 1) or _shows_own(contents)):
        config["includeServerSideToolInvocations"] = True
    return config


def _shows_own(contents: list[dict[str, Any]]) -> bool:
    return any("toolCall" in part for content in contents for part in content["parts"])


# --- configuration -----------------------------------------------------------------------------


def _is_held(request: ModelRequest, can: Capabilities, tools: list[dict[str, Any]]) -> bool:
    """Whether Gemini holds the reply to the schema that was asked for."""
    is_native = request.output is not None and can.structured_output == "native"
    return is_native and (can.structured_with_tools or not tools)


def _generation(
    request: ModelRequest, route: Route, can: Capabilities, tools: list[dict[str, Any]]
) -> dict[str, Any]:
    wanted: Generation = request.generation
    sampling = can.sampling_of(wanted)
    config: dict[str, Any] = {
        "temperature": sampling.get("temperature"),
        "topP": sampling.get("top_p"),
        "seed": wanted.seed,
        "stopSequences": list(wanted.stop) or None,
        "maxOutputTokens": can.output_limit(wanted),
        "thinkingConfig": _thinking(request, route, can),
    }
    if _is_held(request, can, tools):
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = thaw(request.output)
    return stated(config)


def _thinking(request: ModelRequest, route: Route, can: Capabilities) -> dict[str, Any] | None:
    effort = can.effort(request.variant, model=f"{route.provider}:{route.model}")
    if can.reasoning == "none":
        return None
    thinking: dict[str, Any] = {"includeThoughts": effort != 0}
    if isinstance(effort, int):
        thinking["thinkingBudget"] = effort
    elif effort is not None:
        thinking["thinkingLevel"] = effort.upper()
    return thinking
