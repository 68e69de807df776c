"""A recording: one call to a model as it went over the wire, scrubbed, in a file that a test can read.

The file is JSON, UTF-8, indented, with its fields in this order. Fields that say nothing are left out.

    format        1. A release refuses a higher number.
    release       The release of windlass that wrote it.
    provider      What stands before the colon in the model's name.
    model         What the provider calls the model.
    base_url      Where it was asked: the provider's own address, or `http://recorded.invalid` for any other.
    dialect       The fields of a `Dialect` that is no row of the table; for Chat Completions only.
    capabilities  What the model was taken to be able to do, where that is not the default.
    scrubbed      What was taken out beside keys: `personal`, `signatures`.
    asked         The `ModelRequest`, as windlass encodes it. Attachments have no bytes here.
    exchanges     What went over the wire for it, in order; mostly one.
      request     `method`, `path` (below the base URL), `headers` (few, see `KEPT_HEADERS`) and `body` (JSON).
      response    None if there was none. Else `status`, `headers` and `body`: the text as it came, a list of lines
                  with their ends. `base64` instead, if it is not UTF-8. `cuts` are the places in bytes where
                  pieces of it ended, in one line of text.
      ended       `whole`; `left`: the reader had enough; else the HTTP client's error, such as `ReadError`.
    reply         What windlass made of it: the `ModelReply`, as windlass encodes it.
    error         Or the `class`, `message` and `retry_after_s` of the error.
    is_faithful   False if the scrubbed answer is read differently from the real one: another error, another reason
                  for its end, other kinds of parts, or other counts.

Law 1. `reply` and `error` are what is read of the file itself, never of what was not written into it.
Law 2. Equal recordings have equal bytes: nothing of when and where it was made is in it.
Law 3. A file is there whole or not at all, readable for its owner alone, and never in place of another unless asked for.
"""

from __future__ import annotations

import base64
import os
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from windlass.errors import FormatUnsupported, GuardError, InvalidInput, LimitExceeded
from windlass.guards.limits import INPUT_LIMITS
from windlass.guards.secret import REGISTERED, Redactor, Secret
from windlass.models.recording.scrubbing import parts_of

MAX_FILE_BYTES: Final = 32 * INPUT_LIMITS.server_event_bytes
KEPT_HEADERS: Final = (
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "openai-beta",
)
"""Headers of a request that are kept."""
KEPT_ANSWER_HEADERS: Final = ("content-type", "retry-after", "retry-after-ms")
"""Headers of a response that are kept."""
_PATH: Final = re.compile(r" - at `([^`]*)`")


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was sent."""

    method: str
    path: str
    headers: dict[str, str] = {}
    body: Any = None


class Response(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came back."""

    status: int
    headers: dict[str, str] = {}
    body: tuple[str, ...] = ()
    base64: str = ""
    cuts: str = ""

    def pieces(self) -> list[bytes]:
        """Return the bytes of the body, in the pieces in which they came.

        Raises:
            InvalidInput: the body is no base64, or the cuts are no numbers.
        """
        try:
            data = base64.b64decode(self.base64, validate=True) or "".join(self.body).encode()
            cuts = [int(cut) for cut in self.cuts.split()]
        except ValueError:
            field = "exchanges[].response"
            raise InvalidInput.at(field, "bad base64 or cuts", "what windlass wrote") from None
        places = [0, *cuts, len(data)]
        found = (data[start:end] for start, end in pairwise(places))
        return [piece for piece in found if piece]


class Exchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request, and what came of it."""

    request: Request
    response: Response | None = None
    ended: str = "whole"


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The error that a call ended with."""

    class_: str = msgspec.field(name="class")
    message: str
    retry_after_s: float | None = None


class Recording(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call to a model, scrubbed.

    Attributes:
        format: The version of the file's form, which is 1.
        release: The release of windlass that wrote it.
        provider: What stands before the colon in the model's name.
        model: What the provider calls it.
        base_url: The provider's own address, or a stand-in for any other.
        dialect: A dialect of your own for Chat Completions; None for those that windlass has.
        capabilities: What the model was taken to be able to do, where that is not the default.
        scrubbed: What was taken out beside keys: `personal`, `signatures`.
        asked: The `ModelRequest` as windlass encodes it.
        exchanges: What went over the wire for it, in order; mostly one.
        reply: The `ModelReply` that windlass read, as windlass encodes it; None for an error.
        error: The error that the call ended with; None for a reply.
        is_faithful: False if the scrubbed answer is read differently from the real one.
    """

    FORMAT: ClassVar[int] = 1

    format: int
    release: str
    provider: str
    model: str
    base_url: str
    dialect: dict[str, Any] | None = None
    capabilities: dict[str, Any] = {}
    scrubbed: tuple[str, ...] = ()
    asked: dict[str, Any]
    exchanges: tuple[Exchange, ...]
    reply: dict[str, Any] | None = None
    error: Failure | None = None
    is_faithful: bool = True

    @property
    def name(self) -> str:
        """The model's name, such as `anthropic:claude-sonnet-4-5`."""
        return f"{self.provider}:{self.model}"

    @property
    def outcome(self) -> dict[str, Any]:
        """What windlass made of it, as plain JSON."""
        if self.error is not None:
            return {"error": msgspec.to_builtins(self.error)}
        return {"reply": self.reply}

    def to_bytes(self) -> bytes:
        """Return the content of its file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


# ---------------------------------------------------------------------- reading


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Return the recording in a file.

    Args:
        path: Where the file is, as `windlass record` wrote it.

    Raises:
        InvalidInput: the file cannot be read, or is not a recording; the message names the field.
        FormatUnsupported: a later release wrote it.
        LimitExceeded: it is larger than any recording.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"file: {path}: {error.strerror}", field="file") from None
    if len(data) > MAX_FILE_BYTES:
        told = f"file: found over {MAX_FILE_BYTES:,} bytes, which is more than a recording may have"
        raise LimitExceeded(told, field="file", wanted=MAX_FILE_BYTES)
    return recording_in(data)


class _FormatOnly(msgspec.Struct):
    format: int


def recording_in(data: bytes) -> Recording:
    """Return the recording that a file's bytes hold. Raises as `read_recording`."""
    try:
        found = msgspec.json.decode(data, type=_FormatOnly).format
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refused(error) from None
    if found > Recording.FORMAT or found < 1:
        raise FormatUnsupported(
            f"format: found {found}, wanted {Recording.FORMAT}: another release wrote this recording",
            field="format",
            found=found,
            wanted=Recording.FORMAT,
        )
    try:
        recording = msgspec.json.decode(data, type=Recording)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refused(error) from None
    if (recording.reply is None) == (recording.error is None):
        found_here = "neither" if recording.reply is None else "both"
        raise InvalidInput.at("reply", f"{found_here} of reply and error", "one of them")
    return recording


def _refused(error: Exception) -> InvalidInput:
    """Return the refusal of bytes that are not a recording; msgspec names types and fields, never values."""
    if not isinstance(error, msgspec.ValidationError):
        return InvalidInput.at("file", "bytes that are not JSON", "a recording of windlass record")
    path = _PATH.search(str(error))
    field = path[1].removeprefix("$").removeprefix(".") or "file" if path else "file"
    reason = _PATH.sub("", str(error)).partition("\n")[0][:200]
    return InvalidInput(f"{field}: not a recording: {reason}", field=field, found=reason)


# ---------------------------------------------------------------------- writing


def check_clean(data: bytes, secrets: Iterable[Secret]) -> None:
    """Look for secrets in the bytes of a recording, in every form, and for parts of them.

    Raises:
        GuardError: naming the secret that is there.
    """
    recording = recording_in(data)
    answers = [each.response for each in recording.exchanges if each.response is not None]
    looked_at = b"\n".join([data, *(b"".join(answer.pieces()) for answer in answers)])
    for secret in secrets:
        parts = (part.encode() for part in parts_of(secret.reveal()))
        if Redactor((secret,)).is_in(looked_at) or any(part in looked_at for part in parts):
            told = (
                f"recording: found {secret.name} or a part of it, wanted no secret; nothing is kept"
            )
            raise GuardError(told, field="recording", found=secret.name)


def check_free(path: Path) -> None:
    """Refuse to write where a file is already.

    Raises:
        InvalidInput: there is one, or its folder is not there.
    """
    if path.exists() or path.is_symlink():
        raise InvalidInput.at("out", f"{path}, which exists", "a new file, or --force")
    if not path.parent.is_dir():
        raise InvalidInput.at("out", f"no folder {path.parent}", "a folder that exists")


def write_recording(
    recording: Recording,
    path: str | os.PathLike[str],
    *,
    secrets: Iterable[Secret] = (),
    force: bool = False,
) -> int:
    """Write a recording, and look at what was written; return the size of the file.

    Args:
        recording: What to write, as `record_exchange` made it.
        path: Where to write it; its folder has to be there.
        secrets: Secrets that are not registered and must not be in it.
        force: Whether a file that exists may be replaced.

    Raises:
        InvalidInput: the file exists, or cannot be written.
        GuardError: a secret was found in the file, which is deleted.
    """
    file = Path(path)
    if not force:
        check_free(file)
    try:
        number, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # mode 0600
        written = Path(name)
        try:
            with os.fdopen(number, "wb") as out:
                out.write(recording.to_bytes())
                out.flush()
                os.fsync(out.fileno())
            data = written.read_bytes()
            check_clean(data, (*REGISTERED.secrets, *secrets))
            _put(written, file, force=force)
        finally:
            with suppress(FileNotFoundError):
                written.unlink()
    except OSError as error:
        raise InvalidInput(f"out: {file}: {error.strerror}", field="out") from None
    return len(data)


def _put(written: Path, path: Path, *, force: bool) -> None:
    """Give a file its name: at once, and never another one's unless asked for."""
    if force:
        written.replace(path)
        return
    try:
        path.hardlink_to(written)
    except FileExistsError:
        check_free(path)
    except OSError:  # a disk without links
        check_free(path)
        written.replace(path)
