"""The bytes of attachments, for the adapter that has to send them."""

from __future__ import annotations

from windlass.errors import InvalidInput
from windlass.kernel.messages import Attachment
from windlass.ports.model import READ_BLOB


async def bytes_of(attachment: Attachment) -> bytes:
    """Return an attachment's bytes, from the store of the turn that is running.

    Raises:
        InvalidInput: nobody can read it here; the message names the attachment, not its bytes.
        StoreError: the store could not.
    """
    read = READ_BLOB.get()
    if read is None:
        raise InvalidInput(
            "Attachment.ref: found an attachment, wanted a turn whose store holds its bytes",
            field="Attachment.ref",
            wanted="a model call made by a turn",
        )
    return await read(attachment.ref)


def stand_in(attachment: Attachment) -> str:
    """Return the words that stand for an attachment which is not sent."""
    return f"[attachment {attachment.name or attachment.media_type}]"
