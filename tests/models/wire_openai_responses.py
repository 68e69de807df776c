"""Bytes of the Responses API, as its reference documents them: each event named, numbered, and whole items
repeated when they are done and once more at the end.
"""

from __future__ import annotations

from typing import Any

from tests.models.wire_server import sse

Event = dict[str, Any]

USAGE: Event = {
    "input_tokens": 36,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 87,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 123,
}
SERVED = "gpt-5-2025-08-07"


def response(status: str, output: list[Event], **fields: object) -> Event:
    """The response object that the first and the last event carry."""
    return {
        "id": "resp_67c9fdcecf488190bdd9a0409de3a1ec07b8b0ad4e5eb654",
        "object": "response",
        "created_at": 1741487325,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": SERVED,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
        **fields,
    }


def message(
    text: str,
    at: int = 0,
    cuts: tuple[str, ...] = (),
    *,
    phase: str | None = None,
    annotations: tuple[Event, ...] = (),
) -> tuple[Event, list[Event]]:
    """A message item and its events; `cuts` are the deltas. The phase stands in it from its beginning."""
    name = f"msg_{at}"
    part = {"type": "output_text", "text": text, "annotations": [*annotations], "logprobs": []}
    item = {"type": "message", "id": name, "status": "completed", "role": "assistant"}
    if phase is not None:
        item["phase"] = phase
    place = {"item_id": name, "output_index": at, "content_index": 0}
    begun = {**part, "text": "", "annotations": []}
    return {**item, "content": [part]}, [
        {
            "type": "response.output_item.added",
            "output_index": at,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": begun},
        *(
            {"type": "response.output_text.delta", **place, "delta": cut, "logprobs": []}
            for cut in cuts or (text,)
        ),
        *(
            {
                "type": "response.output_text.annotation.added",
                **place,
                "annotation_index": number,
                "annotation": annotation,
            }
            for number, annotation in enumerate(annotations)
        ),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
    ]


def ran(item: Event, at: int = 0) -> tuple[Event, list[Event]]:
    """A tool that the provider ran by itself: what it is tells only its item, once it is done."""
    kind = item["type"]
    begun = {"id": item["id"], "type": kind, "status": "in_progress"}
    place = {"item_id": item["id"], "output_index": at}
    return item, [
        {"type": "response.output_item.added", "output_index": at, "item": begun},
        {"type": f"response.{kind}.in_progress", **place},
        {"type": f"response.{kind}.completed", **place},
    ]


def search(query: str, at: int = 0) -> tuple[Event, list[Event]]:
    """A search of the web."""
    action = {"type": "search", "query": query, "queries": [query]}
    item = {
        "id": f"ws_{at}",
        "type": "web_search_call",
        "status": "completed",
        "action": action,
    }
    return ran(item, at)


def cited(url: str, title: str, start: int, end: int) -> Event:
    """What a search found, as an annotation."""
    return {
        "type": "url_citation",
        "start_index": start,
        "end_index": end,
        "title": title,
        "url": url,
    }


def refusal(text: str) -> tuple[Event, list[Event]]:
    """A message in which the model refuses."""
    place = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    part = {"type": "refusal", "refusal": text}
    item = {"type": "message", "id": "msg_0", "status": "completed", "role": "assistant"}
    return {**item, "content": [part]}, [
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {
            "type": "response.content_part.added",
            **place,
            "part": {"type": "refusal", "refusal": ""},
        },
        {"type": "response.refusal.delta", **place, "delta": text},
        {"type": "response.refusal.done", **place, "refusal": text},
        {"type": "response.content_part.done", **place, "part": part},
    ]


def call(
    name: str, cuts: tuple[str, ...], at: int = 0, call_id: str = "call_7tRz"
) -> tuple[Event, list[Event]]:
    """A function call and its events."""
    item_id = f"fc_{at}"
    item = {
        "type": "function_call",
        "id": item_id,
        "status": "completed",
        "call_id": call_id,
        "name": name,
    }
    place = {"item_id": item_id, "output_index": at}
    whole = "".join(cuts)
    return {**item, "arguments": whole}, [
        {
            "type": "response.output_item.added",
            "output_index": at,
            "item": {**item, "status": "in_progress", "arguments": ""},
        },
        *(
            {"type": "response.function_call_arguments.delta", **place, "delta": cut}
            for cut in cuts
        ),
        {"type": "response.function_call_arguments.done", **place, "arguments": whole},
    ]


def reasoning(
    summaries: tuple[str, ...], encrypted: str | None, at: int = 0
) -> tuple[Event, list[Event]]:
    """A reasoning item with its summaries; what is encrypted is whole only when it is done."""
    name = f"rs_{at}"
    item: Event = {"id": name, "type": "reasoning", "summary": []}
    place = {"item_id": name, "output_index": at}
    events: list[Event] = [
        {
            "type": "response.output_item.added",
            "output_index": at,
            "item": {**item, "encrypted_content": "gAAAAAB-begun"},
        }
    ]
    for number, text in enumerate(summaries):
        part = {"type": "summary_text", "text": text}
        here = {**place, "summary_index": number}
        events += [
            {
                "type": "response.reasoning_summary_part.added",
                **here,
                "part": {**part, "text": ""},
            },
            {"type": "response.reasoning_summary_text.delta", **here, "delta": text},
            {"type": "response.reasoning_summary_text.done", **here, "text": text},
            {"type": "response.reasoning_summary_part.done", **here, "part": part},
        ]
    parts = [{"type": "summary_text", "text": text} for text in summaries]
    return {**item, "summary": parts, "encrypted_content": encrypted}, events


def numbered(events: list[Event]) -> bytes:
    """Events on the wire, each with its number."""
    return sse(*((each["type"], {**each, "sequence_number": at}) for at, each in enumerate(events)))


def begun(*items: tuple[Event, list[Event]], repeat_items: bool = True) -> list[Event]:
    """The events of a response up to its end."""
    events: list[Event] = [
        {"type": "response.created", "response": response("in_progress", [])},
        {"type": "response.in_progress", "response": response("in_progress", [])},
    ]
    for at, (item, own) in enumerate(items):
        events += own
        if repeat_items:
            events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    return events


def completed(*items: tuple[Event, list[Event]], usage: Event | None = None) -> bytes:
    """A response that ended well."""
    output = [item for item, _ in items]
    last = response("completed", output, usage=USAGE if usage is None else usage)
    return numbered([*begun(*items), {"type": "response.completed", "response": last}])


def incomplete(reason: str, *items: tuple[Event, list[Event]]) -> bytes:
    """A response that was cut off."""
    last = response(
        "incomplete",
        [item for item, _ in items],
        usage=USAGE,
        incomplete_details={"reason": reason},
    )
    return numbered([*begun(*items), {"type": "response.incomplete", "response": last}])


def failed(code: str, text: str, *items: tuple[Event, list[Event]]) -> bytes:
    """A response that the provider gave up."""
    last = response("failed", [], error={"code": code, "message": text})
    return numbered([*begun(*items), {"type": "response.failed", "response": last}])


OVERFLOW = (
    b'{"error": {"message": "Your input exceeds the context window of this model. Please adjust your '
    b'input and try again.", "type": "invalid_request_error", "param": "input", '
    b'"code": "context_length_exceeded"}}'
)
QUOTA_429 = (
    b'{"error": {"message": "You exceeded your current quota, please check your plan and billing '
    b"details. For more information on this error, read the docs: "
    b'https://platform.openai.com/docs/guides/error-codes/api-errors.", "type": "insufficient_quota", '
    b'"param": null, "code": "insufficient_quota"}}'
)
QUOTA_400 = (
    b'{"error": {"message": "Billing hard limit has been reached", "type": "invalid_request_error", '
    b'"param": null, "code": "billing_hard_limit_reached"}}'
)
OVERLOADED = (
    b'event: error\ndata: {"type":"error","sequence_number":900,"code":"server_error",'
    b'"message":"The server had an error while processing your request.","param":null}\n\n'
)
