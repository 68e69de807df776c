"""What an item of a response says beside words and calls: its phase, its sources, what the provider ran by itself."""

from __future__ import annotations

from typing import Any

from windlass.kernel import Json, thaw
from windlass.kernel.messages import Citation, ServerToolCall
from windlass.models.capabilities import stated
from windlass.models.message_parts import text_at, whole_text
from windlass.models.provider_errors import clip
from windlass.models.route import Route, replay_blob

# Whole in themselves: the API takes them back as input and has to keep nothing for that.
_CODE = "code_interpreter_call"
_RETURNED = frozenset(
    {
        _CODE,
        "compaction",
        "file_search_call",
        "mcp_call",
        "mcp_list_tools",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
# Not returned: an image is megabytes long, and without it the API cannot know the item, for nothing is stored there.
_SHOWN = {"image_generation_call": "the image is left out of the reply"}
_WANTS_ANSWER = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "local_shell_call",
        "mcp_approval_request",
        "shell_call",
    }
)
_ASKED_IN = {
    _CODE: "code",
    "image_generation_call": "revised_prompt",
    "mcp_list_tools": "server_label",
}
# No provider names a phase at such length, and every chunk of the words would carry it.
_MAX_PHASE = 64


def phase_of(found: dict[str, Any]) -> str | None:
    """Return the phase of a message, also one that is not known; None for anything that cannot be one."""
    phase = text_at(found, "phase")
    return whole_text(phase) or None if len(phase) <= _MAX_PHASE else None


# --- what the provider ran by itself --------------------------------------------------------------------


def is_server_call(found: dict[str, Any]) -> bool:
    """Whether an item is a tool that the provider ran by itself, to its end."""
    kind = found["type"]
    return (kind in _RETURNED or kind in _SHOWN) and not _wants_answer(found)


def server_call(found: dict[str, Any], route: Route) -> ServerToolCall:
    """Return such an item as a part; one that the API takes back, with the whole of it as the blob."""
    kind = found["type"]
    return ServerToolCall(
        name=kind.removesuffix("_call"),
        text=clip(_asked(found)),
        replay=replay_blob(found, route) if kind in _RETURNED else None,
    )


def told_of(call: ServerToolCall, kind: str) -> str | None:
    """Return what is told of such a call; None for a search of the web, and for what belongs to another item."""
    if kind in ("web_search_call", "tool_search_output") and call.replay is not None:
        return None
    fate = (
        "its item is kept and returned" if call.replay is not None else "its item is not sent back"
    )
    return f"{call.name} ran at the provider; {_SHOWN.get(kind, fate)}"


def left_out(found: dict[str, Any]) -> str:
    """Return how an item is named that has no place in a reply."""
    kind = clip(text_at(found, "type")) or "an item of no kind"
    return (
        f"{kind} (it waits for an answer that windlass cannot give)"
        if _wants_answer(found)
        else kind
    )


def _wants_answer(found: dict[str, Any]) -> bool:
    kind = found.get("type")
    is_clients = kind == "tool_search_call" and found.get("execution") == "client"
    return is_clients or (isinstance(kind, str) and kind in _WANTS_ANSWER)


def _asked(found: dict[str, Any]) -> str:
    """Return in words what a tool was asked for."""
    kind = found["type"]
    if kind == "web_search_call":
        action = found.get("action")
        where = [text_at(action, "pattern"), text_at(action, "url")]
        return _queries(action) or " in ".join(filter(None, where))
    if kind == "tool_search_call":
        return _queries(found.get("arguments"))
    if kind == "file_search_call":
        return _queries(found)
    if kind == "mcp_call":
        return " ".join(filter(None, [text_at(found, "server_label"), text_at(found, "name")]))
    return text_at(found, _ASKED_IN.get(kind, ""))


def _queries(owner: object) -> str:
    found = owner.get("queries") if isinstance(owner, dict) else None
    several = [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
    return "; ".join(several) or text_at(owner, "query")


# --- what words rest on -----------------------------------------------------------------------------------


def citations_of(content: list[dict[str, Any]]) -> tuple[Citation, ...]:
    """Return what the parts of a message refer to; positions count from the beginning of all their words."""
    found: list[Citation] = []
    n_before = 0
    for part in content:
        found += [_citation(each, n_before) for each in annotations_of(part)]
        n_before += len(words_of(part))
    return tuple(found)


def annotations_of(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the annotations of a part of a message; what is none is passed over."""
    found = part.get("annotations")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def words_of(part: dict[str, Any]) -> str:
    """Return the words of a part of a message: said, or said in refusal."""
    return text_at(part, "refusal" if part.get("type") == "refusal" else "text")


def _citation(annotation: dict[str, Any], n_before: int) -> Citation:
    index = annotation.get("index")  # of a file: behind which character it is referred to
    return Citation(
        url=text_at(annotation, "url"),
        title=text_at(annotation, "title") or text_at(annotation, "filename"),
        start=_place(annotation.get("start_index", index), n_before),
        end=_place(annotation.get("end_index", index), n_before),
    )


def _place(found: object, n_before: int) -> int | None:
    return found + n_before if type(found) is int and 0 <= found < 2**53 else None


# --- a message, there and back ------------------------------------------------------------------------------


def message_replay(phase: str | None, content: list[dict[str, Any]], route: Route) -> Json:
    """Return what has to go back with the words of a message: its phase, and its annotations with their words."""
    kept = [_kept(part) for part in content] if any(map(annotations_of, content)) else None
    whole = stated({"phase": phase, "content": kept})
    if not whole:
        return None
    # Annotations that cannot be stored go; the phase stays.
    return replay_blob(whole, route) or (replay_blob({"phase": phase}, route) if phase else None)


def _kept(part: dict[str, Any]) -> dict[str, Any]:
    words = whole_text(words_of(part))
    if part.get("type") == "refusal":
        return {"type": "refusal", "refusal": words}
    return {"type": "output_text", "text": words, "annotations": annotations_of(part)}


def message_item(text: str, blob: Json) -> dict[str, Any]:
    """Return words of the model as they are sent back; `blob` is what `message_replay` kept for this route."""
    plain = [{"type": "output_text", "text": text}]
    kept = thaw(blob) if isinstance(blob, dict) else {}
    content = kept.get("content") or plain
    # Who changed the words wants these said, and the annotations belong to others.
    is_same = "".join(map(words_of, content)) == text
    item = {"type": "message", "role": "assistant", "content": content if is_same else plain}
    return {**item, **stated({"phase": kept.get("phase")})}


def without_id(blob: Json) -> dict[str, Any]:
    """Return an item as it is sent back: without its id.

    Nothing is stored at the provider, so an id leads nowhere. By their ids it also pairs items with the thoughts before
    them, and refuses the request if one of a pair is not there.
    """
    return {name: value for name, value in thaw(blob).items() if name != "id"}


def without_containers(items: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Return the items of a request without code that ran in containers, and without the thoughts that led to it.

    A container expires within minutes, and a session lasts: the API refuses a request that names one that is gone. None
    if there is no such item.
    """
    kept: list[dict[str, Any]] = []
    for item in items:
        if item.get("type") != _CODE:
            kept.append(item)
            continue
        while kept and kept[-1].get("type") == "reasoning":
            kept.pop()
    return None if len(kept) == len(items) else kept
