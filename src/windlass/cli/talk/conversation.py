"""A conversation: lines become turns, turns become lines. The turns run on a loop in another thread.

Law 1. Ctrl-C while a turn runs cancels the turn and keeps the session. Pressed again, it leaves, and the turn
    ends without being watched.
Law 2. While a line is being read, nothing else is asked or shown.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Final, Self, TypeAlias, TypeVar

from windlass import Runtime, TurnResult
from windlass.cli import exit_code
from windlass.cli.agents import Choice
from windlass.cli.questions import TAKEN
from windlass.cli.settings import Settings, flags_again
from windlass.cli.talk.prompt import (
    Answer,
    ask,
    ask_question,
    forget_typed_ahead,
    read_message,
    terminal_line,
)
from windlass.cli.talk.screen import Screen
from windlass.cli.terminal import next_step
from windlass.errors import InvalidInput, LimitExceeded, SessionParked, WindlassError
from windlass.kernel import events
from windlass.ports import Wait, WaitReceipt

T = TypeVar("T")
Following: TypeAlias = Coroutine[Any, Any, TurnResult[Any]]
_PAUSE_S: Final = 0.05
HELP: Final = (
    "/help this text · /quit leave (or Ctrl-D) · /usage what the session used\n"
    "/wait watch the unfinished turn · /retry try it again · /cancel end it\n"
    "Ctrl-C cancels a running turn; pressed twice, it leaves\n"
    'A line that ends with \\ continues on the next one; """ starts a block that ends with """.'
)


class Left(Exception):
    """The user has left; `code` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LoopThread:
    """An event loop in a thread of its own: turns run on while the terminal waits for a line."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon thread: a second Ctrl-C exits even if a tool blocks.
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it."""
        return self.start(work).result()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @contextmanager
    def opened(self, runtime: Runtime[Any]) -> Iterator[None]:
        """Open a runtime there, and close it at the end."""
        self.call(runtime.__aenter__())
        try:
            yield
        finally:
            self.call(runtime.__aexit__(None, None, None))


class Conversation:
    """Talks with one session of a runtime that is open on another thread's loop."""

    def __init__(
        self,
        runtime: Runtime[Any],
        loop: LoopThread,
        screen: Screen,
        *,
        session_id: str,
        choice: Choice,
        settings: Settings,
    ) -> None:
        self._runtime = runtime
        self._loop = loop
        self._screen = screen
        self._session_id = session_id
        self._choice = choice
        self._settings = settings
        self._flags = flags_again(settings, "store")
        self._unfinished: str | None = None
        self._news: SimpleQueue[events.Event | Future[TurnResult[Any]] | str | None] = SimpleQueue()
        """From the loop: events, the id of the turn once it has started, and its end; None is Ctrl-C."""
        self._cursor: str | None = None
        self._is_cancelled = False

    # ------------------------------------------------------------------ reading

    def go(self) -> int:
        """Talk until the user leaves; return the exit code."""
        presses = 0
        while True:
            try:
                said = read_message(terminal_line).strip()
                presses = 0
                if said:
                    self._take(said)
            except EOFError:
                return exit_code.OK
            except Left as left:
                return left.code
            except KeyboardInterrupt:
                presses += 1
                if presses > 1:
                    return exit_code.INTERRUPTED
                self._screen.say("\npress Ctrl-C again, or Ctrl-D, to leave", "dim")

    def _take(self, said: str) -> None:
        command, _, rest = said.partition(" ")
        known: dict[str, Callable[[], None]] = {
            "/help": lambda: self._screen.say(HELP, "dim"),
            "/quit": self._quit,
            "/exit": self._quit,
            "/usage": self._usage,
            "/wait": self._wait,
            "/retry": lambda: self._wait(self._runtime.retry),
            "/cancel": lambda: self._wait(
                lambda session, turn: self._runtime.cancel(session, turn, rest)
            ),
        }
        try:
            if command in known:
                known[command]()
            elif command.startswith("/") and command[1:].isalpha():
                self._screen.say(f"unknown command {command}; /help lists the commands", "yellow")
            else:
                self._follow(self._new_turn(said))
        except SessionParked as error:
            told = "the turn before still waits for an answer, so this was not sent"
            self._screen.say(f"{told}; /wait asks again, /cancel ends the turn", "yellow")
            parked = (wait.turn_id for wait in error.waits if isinstance(wait, Wait))
            self._unfinished = self._unfinished or next(parked, None)
        except WindlassError as error:
            self._screen.say(str(error), "red")

    def _quit(self) -> None:
        raise Left(exit_code.OK)

    def _usage(self) -> None:
        self._screen.used(self._loop.call(self._runtime.session(self._session_id).usage()))

    def _wait(self, first: Callable[[str, str], Coroutine[Any, Any, Any]] | None = None) -> None:
        """Watch the unfinished turn again, after doing something about it."""
        if self._unfinished is None:
            self._screen.say("there is no unfinished turn", "dim")
            return
        if first is not None:
            self._loop.call(first(self._session_id, self._unfinished))
        self.attach(self._unfinished)

    # ------------------------------------------------------------------ turns, on the loop

    async def _new_turn(self, said: str) -> TurnResult[Any]:
        session = self._runtime.session(self._session_id)
        own = self._choice
        async with session.stream(said, model=own.override, context=own.context) as turn:
            self._news.put(turn.id)
            await self._tell_all(aiter(turn))
            return await self._settled(turn.id)

    async def _known_turn(self, turn_id: str) -> TurnResult[Any]:
        self._news.put(turn_id)
        handle = self._runtime.turn(self._session_id, turn_id)
        await self._tell_all(handle.events(self._cursor))
        return await self._settled(turn_id)

    async def _tell_all(self, shown: AsyncIterator[events.Event]) -> None:
        async for event in shown:
            self._cursor = event.cursor or self._cursor
            self._news.put(event)

    async def _settled(self, turn_id: str) -> TurnResult[Any]:
        handle = self._runtime.turn(self._session_id, turn_id)
        result = await handle.result()
        while result.parked and not result.waits:
            await asyncio.sleep(_PAUSE_S)
            result = await handle.result()
        return result

    # ------------------------------------------------------------------ turns, in this thread

    def attach(self, turn_id: str, cursor: str | None = None) -> None:
        """Watch a turn that was started before, from a cursor on, and ask what it waits for."""
        self._cursor = cursor or self._cursor
        self._follow(self._known_turn(turn_id))

    def _follow(self, work: Following) -> None:
        """Show a turn until it is over, or waits for something that cannot be answered here."""
        self._is_cancelled = False
        following: Following | None = work
        with self._interrupts():
            while following is not None:
                result = self._watch(following)
                following = self._after(result)

    def _after(self, result: TurnResult[Any]) -> Following | None:
        if not result.parked:
            self._unfinished = None
            self._screen.used(result.usage)
            return None
        self._unfinished = result.turn_id
        questions = [wait for wait in result.waits if wait.kind in ("approval", "question")]
        if not questions:
            for wait in result.waits:
                title = wait.title or "for something outside"
                self._screen.say(f"the turn waits ({wait.kind}): {title}", "yellow")
                if step := next_step(wait, self._flags):
                    self._screen.say(step, "dim")
            kept = "it is kept; /wait watches it, /retry tries again, /cancel ends it"
            self._screen.say(kept, "dim")
            return None
        answered = [self._answer(wait) for wait in questions]
        return self._known_turn(result.turn_id) if all(answered) else None

    def _answer(self, wait: Wait) -> bool:
        """Ask; False if the question stays open."""
        given: WaitReceipt | None = None
        while given is None:
            with _on_interrupt(signal.default_int_handler):
                put = ask if wait.kind == "approval" else ask_question
                forget_typed_ahead()
                answer = put(self._screen, wait, terminal_line)
            if answer.kind == "later":
                self._screen.say(
                    f"\nthe question stays open: {next_step(wait, self._flags)}", "dim"
                )
                return False
            try:
                given = self._loop.call(self._decide(wait, answer))
            except (InvalidInput, LimitExceeded) as error:
                # Nothing was used up: the person may try again.
                self._screen.say(f"  {error}", "yellow")
        if given.status != "accepted":
            by = f" (by {given.answer.by})" if given.answer is not None and given.answer.by else ""
            told = f"{TAKEN[given.status]}{by}; yours was not taken"
            self._screen.say(told, "yellow")
        return True

    async def _decide(self, wait: Wait, answer: Answer) -> WaitReceipt:
        if answer.kind == "said":
            return await self._runtime.resolve(wait.key, answer.value, by=self._settings.by)
        if answer.kind == "no":
            return await self._runtime.deny(wait.key, reason=answer.reason, by=self._settings.by)
        return await self._runtime.approve(
            wait.key, edit=answer.edit, remember=answer.remember, by=self._settings.by
        )

    def _watch(self, work: Following) -> TurnResult[Any]:
        """Show what happens until the turn ends or waits.

        Raises:
            Left: the user pressed Ctrl-C twice.
            WindlassError: the turn could not be started.
        """
        self._loop.start(work).add_done_callback(self._news.put)
        turn_id: str | None = None
        try:
            while True:
                item = self._news.get()
                if isinstance(item, Future):
                    return item.result()
                if isinstance(item, str):
                    turn_id = item
                    if self._is_cancelled:
                        self._end(turn_id)
                elif item is None:
                    self._interrupted(turn_id)
                else:
                    self._screen.show(item, more=not self._news.empty())
        finally:
            self._screen.close()

    def _interrupted(self, turn_id: str | None) -> None:
        if self._is_cancelled:
            raise Left(exit_code.INTERRUPTED)
        self._is_cancelled = True
        self._screen.line("■", "yellow", "cancelling; Ctrl-C again leaves")
        if turn_id is not None:
            self._end(turn_id)

    def _end(self, turn_id: str) -> None:
        self._loop.start(self._runtime.cancel(self._session_id, turn_id, "Ctrl-C"))

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Make Ctrl-C a message to `_watch`, not an exception in the middle of a line."""
        try:
            with _on_interrupt(lambda *_: self._news.put(None)):
                yield
        finally:
            while not self._news.empty():
                self._news.get_nowait()


@contextmanager
def _on_interrupt(handler: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
