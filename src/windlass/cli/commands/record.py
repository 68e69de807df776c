"""`windlass record`: one call to a model, recorded and scrubbed, so that a report of a bug is a test."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter
from msgspec.structs import replace

from windlass.api.recordings import record_exchange, replay_recording
from windlass.cli import exit_code, keys
from windlass.cli.arguments import JsonOption, read_json
from windlass.cli.output import Record, write_json
from windlass.cli.terminal import console, count, line, note, one_line, print_table, safe, size
from windlass.errors import ConfigError, InvalidInput
from windlass.guards.limits import check_limit
from windlass.guards.media import media_type_of
from windlass.guards.secret import REGISTERED, Secret
from windlass.kernel import (
    Attachment,
    Generation,
    ModelMessage,
    ModelRequest,
    Text,
    ToolSpec,
    canonical,
)
from windlass.kernel.model_call import WebSearch
from windlass.models.names import model_named
from windlass.models.recording import (
    Exchange,
    Recording,
    check_free,
    read_recording,
    recording_in,
    write_recording,
)
from windlass.ports import Model
from windlass.ports.model import READ_BLOB

_TOOL_FIELDS: Final = ("name", "description", "parameters")


def record(  # noqa: PLR0913 - every option has a default
    model: str | None = None,
    prompt: str | None = None,
    /,
    *,
    system: str | None = None,
    tools: str | None = None,
    schema: str | None = None,
    variant: str | None = None,
    search: bool = False,
    image: str | None = None,
    request: str | None = None,
    out: Annotated[str | None, Parameter(name=["--out", "-o"])] = None,
    force: bool = False,
    scrub: Literal["personal"] | None = None,
    keep_signatures: bool = False,
    check: str | None = None,
    json: JsonOption = False,
) -> int:
    """Record one call to a model into a file without keys, for a report or a test. Also a call that fails.

    With --check, play a recording to this release, without a network. Exits with 1 if it is read differently now.

    Args:
        model: the model as provider:model
        prompt: the message; without it, standard input is read
        system: a system prompt
        tools: a file with the tools that the model may call: a JSON list of name, description and parameters
        schema: a file with the JSON schema that the answer is to have
        variant: how hard the model should think, such as low or high
        search: let the provider search the web
        image: an image or a PDF to send along; its bytes are not recorded
        request: a file with a whole ModelRequest, or a recording, whose request is sent again
        out: the file to write; else one named after the model
        force: replace a file that exists
        scrub: personal: take out addresses, phone, card and account numbers, too
        keep_signatures: keep signed and encrypted blobs of the provider as they are
        check: a recording to play
    """
    if check is not None:
        return _check(check, json=json)
    if model is None:
        raise InvalidInput.at("model", "none", "a model, such as anthropic:claude-sonnet-4-5")
    live = _model(model)
    file = _file(out, model, force=force)
    data = None if image is None else _image(image)
    if request is not None:
        given = {"prompt": prompt, "system": system, "tools": tools, "schema": schema}
        _check_alone({**given, "variant": variant, "search": search or None})
        asked = replace(_request(request), model=model)
    else:
        asked = _asked(model, _said(prompt), system, data)
        asked = replace(asked, **_options(tools, schema, variant, search=search))
    secrets = (*REGISTERED.secrets, *keys.secrets())
    how = {"personal": scrub == "personal", "keep_signatures": keep_signatures}
    made = asyncio.run(_recorded(live, asked, data, secrets, **how))
    told = _told(made, file, write_recording(made, file, secrets=secrets, force=force))
    _show(made, told, json=json)
    return exit_code.OK


async def _recorded(
    model: Model,
    request: ModelRequest,
    data: bytes | None,
    secrets: tuple[Secret, ...],
    **how: bool,
) -> Recording:
    async def read(_ref: str) -> bytes:
        return data or b""

    if data is not None:
        READ_BLOB.set(read)
    return await record_exchange(model, request, secrets=secrets, **how)


# ---------------------------------------------------------------------- what is asked


def _model(name: str) -> Model:
    found = model_named(name)
    if found is None:
        raise ConfigError.at("model", repr(name[:80]), "provider:model, such as openai:gpt-5")
    return found


def _said(prompt: str | None) -> str:
    said = sys.stdin.read() if prompt is None and not sys.stdin.isatty() else prompt
    if said is None or not said.strip():
        raise InvalidInput.at("prompt", "no text", "a message as argument or on standard input")
    return said


def _asked(model: str, said: str, system: str | None, data: bytes | None) -> ModelRequest:
    parts: tuple[Text | Attachment, ...] = (Text(text=said),)
    if data is not None:
        kind = media_type_of(data)
        if kind is None:
            raise InvalidInput.at("image", "bytes of no known kind", "PNG, JPEG, GIF, WebP or PDF")
        parts = (*parts, Attachment(ref="image", media_type=kind, n_bytes=len(data)))
    messages = [ModelMessage(role="user", parts=parts)]
    if system is not None:
        messages.insert(0, ModelMessage(role="system", parts=(Text(text=system),)))
    return ModelRequest(model=model, messages=tuple(messages))


def _image(file: str) -> bytes:
    data = _read("image", file)
    check_limit("attachment_bytes", len(data), field="image")
    return data


def _check_alone(options: Mapping[str, object]) -> None:
    """Refuse what would be left out without a word: a request says all of it by itself."""
    for name, given in options.items():
        if given is not None:
            raise InvalidInput.at(
                "request", f"{name} beside it", "the request alone, or no request"
            )


def _options(
    tools: str | None, schema: str | None, variant: str | None, *, search: bool
) -> dict[str, Any]:
    server_tools = (WebSearch(),) if search else ()
    return {
        "tools": () if tools is None else _tools(tools),
        "output": None if schema is None else read_json("schema", _text("schema", schema)),
        "generation": Generation(variant=variant, server_tools=server_tools),
        "variant": variant,
    }


def _tools(file: str) -> tuple[ToolSpec, ...]:
    found = read_json("tools", _text("tools", file))
    if not isinstance(found, list):
        raise InvalidInput.at("tools", type(found).__name__, "a JSON list of tools")
    for at, each in enumerate(found):
        wanted = "an object with name, description and parameters"
        if not isinstance(each, dict) or "name" not in each:
            raise InvalidInput.at(f"tools[{at}]", type(each).__name__, wanted)
        unknown = next((key for key in each if key not in _TOOL_FIELDS), None)
        if unknown is not None:
            raise InvalidInput.at(f"tools[{at}]", f"the key {unknown[:40]!r}", wanted)
    return tuple(ToolSpec(**each) for each in found)


def _request(file: str) -> ModelRequest:
    """Return the request in a file: one that windlass encoded, or that of a recording."""
    found = read_json("request", _text("request", file))
    if isinstance(found, dict) and "exchanges" in found:
        found = recording_in(_read("request", file)).asked
    try:
        return canonical.decode(canonical.encode(found), ModelRequest)
    except InvalidInput as error:
        told = f"request: not a ModelRequest, nor a recording: {error}"
        raise InvalidInput(told, field="request", found=error.found) from None


def _text(field: str, file: str) -> str:
    try:
        return _read(field, file).decode()
    except UnicodeDecodeError:
        raise InvalidInput.at(field, "bytes that are not UTF-8", "JSON") from None


def _read(field: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{field}: {file}: {error.strerror}", field=field) from None


# ---------------------------------------------------------------------- the file


def _file(out: str | None, model: str, *, force: bool) -> Path:
    """Return the file to write, before anything is asked and paid for."""
    if out is not None:
        if not force:
            check_free(Path(out))
        return Path(out)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", model).strip("-.") or "recording"
    names = (f"{name}{end}.json" for end in ("", *(f"-{at}" for at in range(2, 1000))))
    return next(Path(each) for each in names if not Path(each).exists())


def _told(made: Recording, file: Path, n_bytes: int) -> Record:
    last = made.exchanges[-1]
    reply: Mapping[str, Any] = made.reply or {}
    return {
        "file": str(file),
        "bytes": n_bytes,
        "model": made.name,
        "status": None if last.response is None else last.response.status,
        "ended": last.ended,
        "events": _n_events(last),
        "terminal": None if made.reply is None else reply.get("terminal", "stop"),
        "error": made.outcome.get("error"),
        "usage": None if made.reply is None else reply.get("usage", {}),
        "scrubbed": ["keys", *made.scrubbed],
        "is_faithful": made.is_faithful,
    }


def _n_events(exchange: Exchange) -> int:
    body = () if exchange.response is None else exchange.response.body
    return sum(text.startswith("data:") for text in body)


def _show(made: Recording, told: Record, *, json: bool) -> None:
    if json:
        write_json(told)
        return
    usage = told["usage"] or {}
    error = told["error"]
    got = told["status"] if told["status"] is not None else "no answer"
    read = (
        f"a reply, {told['terminal']}" if error is None else f"{error['class']}: {error['message']}"
    )
    rows = [
        ("asked", one_line(_last_words(made), 60)),
        ("model", made.name),
        ("answer", f"{got}, {count(told['events'], 'event')}, {_ended(told['ended'])}"),
        ("read as", one_line(read, 200)),
        ("tokens", f"{usage.get('input_tokens', 0)} in, {usage.get('output_tokens', 0)} out"),
        ("taken out", ", ".join(told["scrubbed"])),
        ("file", f"{told['file']} ({size(told['bytes'])})"),
    ]
    print_table(("recorded", ""), rows, ("cyan",))
    if not made.is_faithful:
        note("! the scrubbed answer is read differently from the real one; say so in your report")
    screen = console()
    screen.print(
        "\nThe file holds your prompt and the answer. Read it, then attach it to your report."
    )
    screen.print(f"to play it again, without a network: windlass record --check {told['file']}", soft_wrap=True)  # fmt: skip


def _last_words(made: Recording) -> str:
    messages = made.asked.get("messages") or [{}]
    return " ".join(part["text"] for part in messages[-1].get("parts", ()) if "text" in part)


def _ended(how: str) -> str:
    words = {"whole": "to its end", "left": "as far as it was read"}
    return words.get(how, f"broken off ({how})")


# ---------------------------------------------------------------------- playing it again


def _check(file: str, *, json: bool) -> int:
    played = asyncio.run(replay_recording(read_recording(file)))
    if json:
        write_json(
            {
                "file": file,
                "is_same": played.is_same,
                "recorded": played.expected,
                "found": played.found,
                "request_diff": played.request_diff,
            }
        )
    else:
        made = played.recording
        same = "read as it was recorded" if played.is_same else "read differently now"
        by = f"{made.name}, recorded by release {made.release}"
        style = "green" if played.is_same else "red"
        console().print(line((f"{file}: ", ""), (same, style), (f" ({by})", "dim")), soft_wrap=True)
        for told in (played.diff, played.request_diff and f"the request:\n{played.request_diff}"):
            if told:
                console().print(safe(told), soft_wrap=True)
    return exit_code.OK if played.is_same else exit_code.NOT_FINISHED
