"""The model of the coding picture: a server of Chat Completions that follows a few rules and writes word by word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from windlass.kernel import canonical

_PAUSE_S = 0.06
_STEPS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("I look at how prices are computed.", "read_file", {"path": "shop/price.py"}),
    (
        "The division leaves fractions of a cent. I make it a whole division.",
        "edit_file",
        {"path": "shop/price.py", "old": "gross * 100 / 119", "new": "gross * 100 // 119"},
    ),
    ("Now the tests.", "run_command", {"command": "python3 -m unittest 2>&1 | tail -1"}),
)
_ANSWER = "**Prices are whole cents now.** `net` divides with `//`, and the three tests pass."


class Rules(BaseHTTPRequestHandler):
    """Looks, edits, tests, and tells: does the first of these that is not done yet."""

    def do_POST(self) -> None:
        """Answer a request with a stream."""
        size = int(self.headers["content-length"])
        asked = canonical.parse(self.rfile.read(size).decode())
        n_done = sum(message["role"] == "tool" for message in asked["messages"])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        with suppress(ConnectionError):  # the client was killed
            for chunk in _chunks(n_done):
                self.wfile.write(b"data: " + canonical.encode(chunk) + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Write no log."""


def _chunks(n_done: int) -> Iterator[dict[str, Any]]:
    is_last = n_done == len(_STEPS)
    words, name, args = (_ANSWER, "", {}) if is_last else _STEPS[n_done]
    for word in words.split(" "):
        yield _chunk({"content": f"{word} "})
        Event().wait(_PAUSE_S)
    if not is_last:
        function = {"name": name, "arguments": canonical.encode(args).decode()}
        call = {"index": 0, "id": f"call_{n_done}", "type": "function", "function": function}
        yield _chunk({"tool_calls": [call]})
    yield _chunk({}, "stop" if is_last else "tool_calls")
    n_in, n_out = 1_650 + 180 * n_done, 40
    usage = {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out}
    yield {**_chunk({}), "choices": [], "usage": usage}


def _chunk(delta: dict[str, Any], ends: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": ends}
    kind = "chat.completion.chunk"
    return {"id": "1", "object": kind, "created": 0, "model": "rules", "choices": [choice]}


@contextmanager
def serving() -> Iterator[str]:
    """Serve the model on a port of this machine; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Rules)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
