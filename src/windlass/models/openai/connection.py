"""The way to a server that speaks one of OpenAI's protocols: the SDK sends, windlass reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from windlass.kernel.value import Json
from windlass.models.credentials import KEY_SOURCES
from windlass.models.provider_errors import from_error_object
from windlass.models.sdk_model import SdkModel
from windlass.models.server_events import ByteSource, ReplyReader, read_reply

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_MAX_ERROR_BYTES = 64 * 1024


class OpenAIModel(SdkModel["AsyncOpenAI"]):
    """A model on a server that speaks one of OpenAI's protocols, which is asked at `path`."""

    path: ClassVar[str]

    async def _read(self, client: AsyncOpenAI, asked: dict[str, Any], reader: ReplyReader) -> None:
        import openai  # noqa: PLC0415 - takes half a second, so the first call imports it

        is_keyless = self._key.name == "no key"
        headers = {"Authorization": openai.Omit()} if is_keyless else {}
        options = {"headers": headers, "security": {"bearer_auth": True}}
        stream_cls = openai.AsyncStream[object]
        async with await self._post(client, self.path, asked, stream_cls, **options) as stream:
            await self._check_no_error(stream.response)
            await read_reply(stream.response, reader, self.provider)

    async def _check_no_error(self, response: ByteSource) -> None:
        """Raise an error that came with status 200.

        Raises:
            ProviderError: there is one.
        """
        found = str(response.headers.get("content-type", ""))
        if found.partition(";")[0].strip().lower() == "application/json":
            error = _error_in(await _beginning(response))
            if error is not None:
                raise from_error_object(error, provider=self.provider)

    def _make_client(self) -> AsyncOpenAI:
        import openai  # noqa: PLC0415 - as above

        client = openai.AsyncOpenAI(**self._client_options())
        if self._base_url != KEY_SOURCES["openai"].base_url:
            # The SDK sends the environment's OpenAI headers to every server; only OpenAI may see them.
            client.organization = client.project = None
            client._custom_headers = {}  # noqa: SLF001 - there is no other way to be rid of them
        client.admin_api_key = None
        return client


async def _beginning(response: ByteSource) -> bytes:
    found = b""
    async for piece in response.aiter_bytes():
        found += piece
        if len(found) > _MAX_ERROR_BYTES:
            break
    return found


def _error_in(body: bytes) -> Json:
    try:
        said = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    return said.get("error") if isinstance(said, dict) else None
