"""The engine that runs weights in this process: loaded once, one reply at a time, stopped when its caller is cancelled.

Law 1. The work is done in one thread of its own. A caller that is cancelled does not go before the thread has
    stopped, or is about to: at most a few tokens later.
Law 2. The same request gets the same reply at temperature 0, independent of earlier requests.
Law 3. The engine brings an HTTP server that cannot be turned off. It listens on this machine only, on a port
    of its own, behind a random key that is not handed out.
"""

from __future__ import annotations

import asyncio
import importlib
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from windlass.errors import ProviderError, Rejected
from windlass.kernel.value import Json
from windlass.models.provider_errors import clip, cut_off, from_error_object

PROVIDER = "local"

# Larger batches are hardly faster on one thread. They are computed in another way, so that a reply would depend
# on how much of the prompt was known already; and a prompt can be stopped only between two of them.
_BATCH = 16


class Generated(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a request: how it ended, and what it used."""

    finish: str
    usage: dict[str, Any]


class Engine:
    """Weights in memory. Get it with `engine_of`: it is big, so each file has one."""

    def __init__(self, path: Path, context_tokens: int) -> None:
        self._path = path
        self._context_tokens = context_tokens
        self._server: Any = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="windlass-local")

    async def generate(
        self, body: dict[str, Json], schema: Json, show: Callable[[str], None]
    ) -> Generated:
        """Write a reply, held to a schema if there is one; `show` is called in this task's loop.

        Raises:
            ProviderError: the engine refused, or failed.
        """
        run = _Run(asyncio.get_running_loop(), show)
        work = self._worker.submit(self._write, body, schema, run)
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            run.stop.set()
            await _ended(work)
            raise

    def _write(self, body: dict[str, Json], schema: Json, run: _Run) -> Generated:
        """Do the work, in the engine's thread."""
        if run.stop.is_set():
            return run.generated()
        if self._server is None:
            self._server = _load(self._path, self._context_tokens)
        if schema is not None:
            body = {**body, "grammar": _grammar(schema)}
        try:
            self._server.handle_chat_completions(body, run.take)
        except (ValueError, RuntimeError) as error:
            raise Rejected(f"{PROVIDER}: {clip(str(error))}") from None
        return run.generated()


class _Run:
    """One reply while it is written. Its chunks come in the engine's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, show: Callable[[str], None]) -> None:
        self.stop = threading.Event()
        self._loop = loop
        self._show = show
        self._finish: str | None = None
        self._usage: dict[str, Any] = {}
        self._error: ProviderError | None = None

    def take(self, chunk: dict[str, Any]) -> bool:
        """Take a chunk; return whether to stop. What is raised here would be lost, so nothing is."""
        if self.stop.is_set():
            return True
        if "error" in chunk:
            self._error = from_error_object(chunk["error"], provider=PROVIDER)
            return True
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or ():
            self._finish = choice.get("finish_reason") or self._finish
            piece = choice.get("delta", {}).get("content")
            if piece:
                self._pass_on(piece)
        return self.stop.is_set()

    def _pass_on(self, piece: str) -> None:
        try:
            self._loop.call_soon_threadsafe(self._show_unless_stopped, piece)
        except RuntimeError:  # the loop is closed, so nothing awaits the reply
            self.stop.set()

    def _show_unless_stopped(self, piece: str) -> None:
        if not self.stop.is_set():
            self._show(piece)

    def generated(self) -> Generated:
        """Return how it ended.

        Raises:
            ProviderError: it failed, or broke off.
        """
        if self._error is not None:
            raise self._error
        if self._finish is None and not self.stop.is_set():
            raise cut_off(PROVIDER)
        return Generated(finish=self._finish or "cancelled", usage=self._usage)


async def _ended(work: Future[Any]) -> None:
    """Wait until a thread's work is over; work that did not begin never does."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    if not work.cancel():
        work.add_done_callback(lambda _: loop.call_soon_threadsafe(over.set))
        await over.wait()


def _grammar(schema: Json) -> str:
    return str(_engine_module().json_schema_to_grammar(msgspec.json.encode(schema).decode()))


def _engine_module() -> Any:  # noqa: ANN401 - it has no types
    """Import the engine, which takes 100 MB, when something is first asked."""
    return importlib.import_module("xllamacpp")


def _load(path: Path, context_tokens: int) -> Any:  # noqa: ANN401 - it has no types
    """Load the weights. Takes about a second, in which this process does nothing else.

    Raises:
        Rejected: the engine does not take them.
    """
    xllamacpp = _engine_module()
    wanted = xllamacpp.CommonParams()
    wanted.model.path = str(path)
    wanted.n_ctx = context_tokens
    wanted.n_batch = wanted.n_ubatch = _BATCH
    # On shared cores, a second thread makes it slower.
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = 1
    wanted.n_parallel = wanted.n_threads_http = 1
    wanted.cache_ram_mib = 0
    wanted.warmup = False
    wanted.verbosity = -1
    wanted.hostnames, wanted.port, wanted.api_keys = ["127.0.0.1"], 0, [secrets.token_hex(32)]
    try:
        return xllamacpp.Server(wanted)
    except (ValueError, RuntimeError) as error:
        raise Rejected(f"{PROVIDER}: the weights cannot be loaded: {clip(str(error))}") from None


_engines: dict[tuple[Path, int], Engine] = {}
_engines_lock = threading.Lock()


def engine_of(path: Path, context_tokens: int) -> Engine:
    """Return the engine of a file; the same for all callers. It loads the file when it is first used."""
    with _engines_lock:
        key = (path, context_tokens)
        if key not in _engines:
            _engines[key] = Engine(path, context_tokens)
        return _engines[key]
