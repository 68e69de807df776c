"""A conversation: lines become turns, turns become lines. The turns run in another thread.

Law 1. Ctrl-C while a turn runs cancels the turn and keeps the session; again, it leaves, and the turn goes on
    ending without anybody watching.
Law 2. Nothing is asked or shown while a line is being read.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Final

import msgspec

from windlass import Runtime, TurnResult
from windlass.cli import exit_code
from windlass.cli.talk.loop_thread import LoopThread
from windlass.cli.talk.prompt import read_message, terminal_line
from windlass.cli.talk.question import Answer, ask
from windlass.cli.talk.screen import Screen
from windlass.cli.wording import short_key
from windlass.errors import SessionParked, WindlassError
from windlass.kernel import events
from windlass.ports import Wait

_PAUSE_S: Final = 0.05
HELP: Final = (
    "/help this · /quit leave (or Ctrl-D) · /usage what the session used · /wait watch the unfinished turn\n"
    "/retry try it again · /cancel end it · Ctrl-C cancels a running turn, twice leaves\n"
    'A line that ends with \\ goes on in the next one; """ begins a block that ends with """.'
)


class _Began(msgspec.Struct, frozen=True):
    turn_id: str


class _Rested(msgspec.Struct, frozen=True):
    result: Any


class _Failed(msgspec.Struct, frozen=True):
    error: BaseException


class _Interrupt:
    """Somebody pressed Ctrl-C."""


class Left(Exception):
    """Whoever sat there has left; `code` is how."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Conversation:
    """Talks with one session of a runtime that is open in another thread."""

    def __init__(
        self,
        runtime: Runtime[Any],
        loop: LoopThread,
        screen: Screen,
        *,
        session_id: str,
        model: str | None = None,
        by: str | None = None,
    ) -> None:
        self._runtime = runtime
        self._loop = loop
        self._screen = screen
        self._session_id = session_id
        self._model = model
        self._by = by
        self._unfinished: str | None = None
        self._news: SimpleQueue[Any] = SimpleQueue()
        self._cursor: str | None = None
        self._is_cancelled = False

    # ------------------------------------------------------------------ reading

    def go(self) -> int:
        """Talk until somebody leaves; return the exit code."""
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
                self._screen.say("\nCtrl-C again, or Ctrl-D, leaves", "dim")

    def _take(self, said: str) -> None:
        command, _, rest = said.partition(" ")
        known: dict[str, Callable[[], None]] = {
            "/help": lambda: self._screen.say(HELP, "dim"),
            "/quit": self._quit,
            "/exit": self._quit,
            "/usage": self._usage,
            "/wait": self._wait,
            "/retry": self._retry,
            "/cancel": lambda: self._cancel(rest),
        }
        try:
            if command in known:
                known[command]()
            elif command.startswith("/") and command[1:].isalpha():
                self._screen.say(f"there is no {command}; /help lists what there is", "yellow")
            else:
                self._follow(self._new_turn(said))
        except SessionParked as error:
            self._screen.say(f"{error}; /wait asks again, /cancel ends the turn", "yellow")
            self._unfinished = self._unfinished or next(
                (wait.turn_id for wait in error.waits if isinstance(wait, Wait)), None
            )
        except WindlassError as error:
            self._screen.say(str(error), "red")

    def _quit(self) -> None:
        raise Left(exit_code.OK)

    def _usage(self) -> None:
        self._screen.used(self._loop.call(self._runtime.session(self._session_id).usage()))

    def _wait(self) -> None:
        if self._unfinished is None:
            self._screen.say("no turn is unfinished", "dim")
        else:
            self.attach(self._unfinished)

    def _retry(self) -> None:
        if self._unfinished is None:
            self._screen.say("no turn is unfinished", "dim")
            return
        # It may have tried again by itself meanwhile; either way there is something to see.
        self._loop.call(self._runtime.retry(self._session_id, self._unfinished))
        self.attach(self._unfinished)

    def _cancel(self, reason: str) -> None:
        if self._unfinished is None:
            self._screen.say("no turn is unfinished", "dim")
            return
        self._loop.call(self._runtime.cancel(self._session_id, self._unfinished, reason))
        self.attach(self._unfinished)

    # ------------------------------------------------------------------ turns, over there

    async def _new_turn(self, said: str) -> None:
        session = self._runtime.session(self._session_id)
        async with session.stream(said, model=self._model) as turn:
            self._news.put(_Began(turn.id))
            await self._tell_all(aiter(turn))
            self._news.put(_Rested(await self._settled(turn.id)))

    async def _known_turn(self, turn_id: str) -> None:
        self._news.put(_Began(turn_id))
        handle = self._runtime.turn(self._session_id, turn_id)
        await self._tell_all(handle.events(self._cursor))
        self._news.put(_Rested(await self._settled(turn_id)))

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

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - told where somebody waits for it
            self._news.put(_Failed(error))

    # ------------------------------------------------------------------ turns, over here

    def attach(self, turn_id: str) -> None:
        """Watch a turn that was begun before, and ask what it waits for."""
        self._follow(self._known_turn(turn_id))

    def _follow(self, work: Coroutine[Any, Any, None]) -> None:
        """Show a turn until it is over, or waits for something that cannot be answered here."""
        self._is_cancelled = False
        following: Coroutine[Any, Any, None] | None = work
        with self._interrupts():
            while following is not None:
                result = self._watch(following)
                self._screen.rest()
                following = self._after(result)

    def _after(self, result: TurnResult[Any]) -> Coroutine[Any, Any, None] | None:
        if not result.parked:
            self._unfinished = None
            self._screen.used(result.usage)
            return None
        self._unfinished = result.turn_id
        questions = [wait for wait in result.waits if wait.kind == "approval"]
        if not questions:
            for wait in result.waits:
                self._screen.say(
                    f"the turn waits ({wait.kind}): {wait.title or 'for something outside'}",
                    "yellow",
                )
            self._screen.say(
                "it is kept; /wait watches it, /retry tries again, /cancel ends it", "dim"
            )
            return None
        answered = [self._answer(wait) for wait in questions]
        if not all(answered):
            return None
        return self._known_turn(result.turn_id)

    def _answer(self, wait: Wait) -> bool:
        """Ask; False if the question stays open."""
        with self._default_interrupt():
            answer = ask(self._screen, wait, terminal_line)
        if answer.kind == "later":
            self._screen.say(
                f"\nthe question stays open: windlass approve {short_key(wait.key)}", "dim"
            )
            return False
        receipt = self._loop.call(self._decide(wait, answer))
        if receipt != "accepted":
            self._screen.say(f"{receipt}: another answer stands", "yellow")
        return True

    async def _decide(self, wait: Wait, answer: Answer) -> str:
        if answer.kind == "no":
            given = await self._runtime.deny(wait.key, reason=answer.reason, by=self._by)
        else:
            given = await self._runtime.approve(
                wait.key, edit=answer.edit, remember=answer.remember, by=self._by
            )
        return given.status

    def _watch(self, work: Coroutine[Any, Any, None]) -> TurnResult[Any]:
        """Show what happens until the turn rests.

        Raises:
            Left: Ctrl-C, twice.
            WindlassError: it could not be begun.
        """
        self._loop.start(self._guarded(work))
        turn_id: str | None = None
        while True:
            item = self._news.get()
            match item:
                case _Began(turn_id=begun):
                    turn_id = begun
                    if self._is_cancelled:
                        self._end(turn_id)
                case _Interrupt():
                    self._interrupted(turn_id)
                case _Rested(result=result):
                    return result  # type: ignore[no-any-return]  # put in above
                case _Failed(error=error):
                    self._screen.rest()
                    raise error
                case _:
                    self._screen.show(item, more=not self._news.empty())

    def _interrupted(self, turn_id: str | None) -> None:
        if self._is_cancelled:
            self._screen.rest()
            raise Left(exit_code.INTERRUPTED)
        self._is_cancelled = True
        self._screen.line("■", "yellow", "cancelling; Ctrl-C again leaves")
        if turn_id is not None:
            self._end(turn_id)

    def _end(self, turn_id: str) -> None:
        self._loop.start(self._runtime.cancel(self._session_id, turn_id, "Ctrl-C"))

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Let Ctrl-C be a message to whoever watches, not an exception in the middle of a line."""
        before = signal.signal(signal.SIGINT, lambda *_: self._news.put(_Interrupt()))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            self._forget_interrupts()

    @contextmanager
    def _default_interrupt(self) -> Iterator[None]:
        before: Callable[..., Any] | int | None = signal.signal(
            signal.SIGINT, signal.default_int_handler
        )
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _forget_interrupts(self) -> None:
        while not self._news.empty():
            self._news.get_nowait()
