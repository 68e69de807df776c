"""Uploads: bytes on their way into a turn, before a store has them."""

from __future__ import annotations

from os import PathLike

from windlass.errors import InvalidInput, PathDenied
from windlass.guards import check_limit
from windlass.guards.media import check_file, check_file_name, check_media_type
from windlass.kernel import messages
from windlass.kernel.messages import BYTES


class Upload:
    """Bytes with their type; the store keeps them and the turn refers to them by digest."""

    __slots__ = ("data", "media_type", "name")

    def __init__(self, data: bytes, *, media_type: str = BYTES, name: str | None = None) -> None:
        if not isinstance(data, bytes):
            raise InvalidInput.at("Upload.data", type(data).__name__, "bytes")
        check_limit("attachment_bytes", len(data), field="Upload.data")
        self.media_type = check_media_type(media_type, field="Upload.media_type")
        self.name = check_file_name(name, field="Upload.name")
        check_file(data, media_type, field="Upload.data")
        self.data = data


class Attachment(messages.Attachment, tag="attachment", kw_only=True):
    """A file or an image in a turn's input or in a tool's result.

    Attributes:
        ref: Where the store has the bytes: a digest.
        media_type: What kind of file it is, such as `image/png`; `application/octet-stream` if nobody said.
        name: The file's name as people know it; None if it has none.
        n_bytes: How large the file is; None if that is not known.
    """

    @staticmethod
    def from_bytes(data: bytes, *, media_type: str = BYTES, name: str | None = None) -> Upload:
        """Return bytes to be kept when the turn is accepted.

        Args:
            data: The content of the file.
            media_type: What kind of file it is, such as `image/png`.
            name: The file's name as the model is to see it.

        Raises:
            InvalidInput: no bytes, bytes that are not of their media type, or a type or name that is none.
            LimitExceeded: too many bytes.
        """
        return Upload(data, media_type=media_type, name=name)

    @staticmethod
    def from_path(path: str | PathLike[str], *, media_type: str | None = None) -> Upload:
        """Return a file's bytes; its type is guessed from its name.

        Args:
            path: Where the file is; it is read at once.
            media_type: What kind of file it is, where the name does not tell.

        Raises:
            PathDenied: it is not a plain file that can be read.
            InvalidInput, LimitExceeded: as `from_bytes`.
        """
        # They read tables or bring others along; few attach files by name.
        import mimetypes  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        place = Path(path)
        if not place.is_file():
            raise PathDenied("path: not a regular file", field="path")
        check_limit("attachment_bytes", place.stat().st_size, field="path")
        try:
            data = place.read_bytes()
        except OSError as error:
            raise PathDenied(f"path: {error.strerror or 'cannot be read'}", field="path") from None
        guessed = media_type or mimetypes.guess_type(place.name)[0] or BYTES
        return Upload(data, media_type=guessed, name=place.name)
