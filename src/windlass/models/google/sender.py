"""What Google's SDK sends with: the SDK asks, and the answer goes to windlass.

The SDK reads a stream through seven generators, one inside the other. One that is left in the middle is closed by the
event loop, one layer at a time, after the call; a loop that ends meanwhile complains. It also cuts lines at U+2028,
takes a comment for an answer that is not JSON, has no limit, and reads a web page to its end without an error.

Law 1. The SDK never sees the bytes of a reply. It sees refusals, and reads them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from httpx2 import AsyncClient, Request, Response

from windlass.guards.secret import Secret, register_secret

_CONNECT_S = 15.0
_BEARER = "Bearer "

TAKEN: ContextVar[list[Response]] = ContextVar("google_answers")
"""Where the answers of a call go."""


class Sender(AsyncClient):
    """An HTTP client for the SDK, in front of the one that sends."""

    def __init__(self, http: AsyncClient) -> None:
        # Not that of the class above: this one opens no connections.
        self._http = http

    def build_request(self, *args: Any, **options: Any) -> Request:
        """Make a request. It waits less for a connection than for an answer; the SDK has one number for both."""
        request = self._http.build_request(*args, **options)
        waits = request.extensions["timeout"]
        waits["connect"] = min(waits["connect"], _CONNECT_S)
        token = request.headers.get("authorization", "")
        if token.startswith(_BEARER):
            register_secret(Secret(token.removeprefix(_BEARER), name="access token"))
        return request

    async def send(self, request: Request, **_options: Any) -> Response:
        """Send it; keep an answer that is one, and give the SDK an empty one to read."""
        response = await self._http.send(request, stream=True, follow_redirects=False)
        if response.status_code != 200:
            return response
        TAKEN.get().append(response)
        return Response(200, request=request)


class Answer:
    """The bytes of an answer. Leaving it in the middle leaves nothing open."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self._pieces = response.aiter_bytes()

    @property
    def headers(self) -> Mapping[str, str]:
        """What was said about them."""
        return self._response.headers

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Return the pieces."""
        return self._pieces

    async def aclose(self) -> None:
        """Close the connection, and come to the end of every generator that reads it: the next byte is an error."""
        await self._response.aclose()
        with suppress(Exception):
            async for _ in self._pieces:
                pass
