"""What a caller hands in: words, or parts; files among them are kept before the turn is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from windlass.errors import CallerError, InvalidInput
from windlass.guards import check_limit, check_text
from windlass.kernel import messages
from windlass.kernel.messages import Part, Text
from windlass.ports import Store
from windlass.ports.upload import Upload

InputPart: TypeAlias = str | Text | messages.Attachment | Upload
Input: TypeAlias = str | InputPart | Sequence[InputPart]


async def read_input(given: Input, store: Store, *, now_ms: int) -> tuple[Part, ...]:
    """Return the input as parts.

    Raises:
        InvalidInput: it is empty, or holds something that is no part.
        LimitExceeded: it is too much.
    """
    listed = _listed(given)
    check_limit("parts_per_message", len(listed), field="input")
    n_files = sum(isinstance(one, (messages.Attachment, Upload)) for one in listed)
    check_limit("attachments_per_turn", n_files, field="input")
    checked = [_checked(one, at) for at, one in enumerate(listed)]
    for at, one in enumerate(checked):
        if isinstance(one, messages.Attachment):
            await _check_kept(one, store, f"input[{at}]")
    return tuple([await _kept(one, store, now_ms) for one in checked])


def _listed(given: Input) -> list[InputPart]:
    if isinstance(given, (str, Text, messages.Attachment, Upload)):
        given = [given]
    if not isinstance(given, (list, tuple)):
        found = type(given).__name__
        raise InvalidInput(
            f"input: found {found}, wanted text or a list of parts", field="input", found=found
        )
    if not given:
        raise InvalidInput("input: found no parts, wanted at least one", field="input")
    return list(given)


def _checked(one: object, at: int) -> Text | messages.Attachment | Upload:
    field = f"input[{at}]"
    if isinstance(one, str):
        _check_words(one, field)
        return Text(text=one)
    if isinstance(one, Text):
        _check_words(one.text, field)
        return one
    if isinstance(one, (messages.Attachment, Upload)):
        return one
    found = type(one).__name__
    raise InvalidInput(
        f"{field}: found {found}, wanted text, Text or Attachment.from_bytes/from_path",
        field=field,
        found=found,
    )


def _check_words(words: str, field: str) -> None:
    # Length first: nothing is copied of what is far too long.
    check_limit("input_text_bytes", len(words), field=field)
    check_text(words, field=field)
    check_limit("input_text_bytes", len(words.encode()), field=field)
    if not words.strip():
        raise InvalidInput(f"{field}: found blank text, wanted words", field=field)


async def _check_kept(one: messages.Attachment, store: Store, field: str) -> None:
    try:
        await store.get_blob(one.ref)
    except CallerError:
        raise InvalidInput(
            f"{field}: found an attachment whose bytes nobody keeps; wanted Attachment.from_bytes",
            field=field,
        ) from None


async def _kept(one: Text | messages.Attachment | Upload, store: Store, now_ms: int) -> Part:
    if not isinstance(one, Upload):
        return one
    ref = await store.put_blob(one.data, now_ms=now_ms)
    return messages.Attachment(
        ref=ref, media_type=one.media_type, name=one.name, n_bytes=len(one.data)
    )
