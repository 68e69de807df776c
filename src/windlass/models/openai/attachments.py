"""Attachments as OpenAI's protocols take them: images and files as data URLs, text as text, else the name."""

from __future__ import annotations

from base64 import b64encode
from typing import Literal, TypeAlias

import msgspec

from windlass.guards.text import clean_text
from windlass.kernel.messages import Attachment
from windlass.models.blob_source import bytes_of, stand_in
from windlass.models.capabilities import Capabilities

Kind: TypeAlias = Literal["image", "file", "text"]


class Shown(msgspec.Struct, frozen=True):
    """What is sent of an attachment: `content` is a data URL, or words for the kind `text`."""

    kind: Kind
    content: str
    name: str


async def shown(attachment: Attachment, able: Capabilities, *, is_result: bool = False) -> Shown:
    """Return what a model of these abilities is shown.

    The text of a tool's result is only named: it is the whole of what was shortened on purpose.

    Raises:
        InvalidInput, StoreError: its bytes cannot be read.
    """
    name = attachment.name or "attachment"
    kind = attachment.media_type
    if able.images and kind in able.image_types:
        return Shown("image", await _data_url(attachment), name)
    if able.files and kind in able.file_types:
        return Shown("file", await _data_url(attachment), name)
    if kind.startswith("text/") and not is_result:
        words = clean_text((await bytes_of(attachment)).decode(errors="replace"))
        return Shown("text", f"{stand_in(attachment)}\n{words}", name)
    return Shown("text", stand_in(attachment), name)


async def _data_url(attachment: Attachment) -> str:
    coded = b64encode(await bytes_of(attachment)).decode()
    return f"data:{attachment.media_type};base64,{coded}"
