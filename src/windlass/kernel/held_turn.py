"""A turn as a machine holds it: its fields, its public properties, and the queue of effects that it tells.

Law. Nothing here changes the state: that is done in machine.py alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, get_args

from msgspec.structs import replace

from windlass.kernel import effects, events, responses, states
from windlass.kernel.chain import Chain
from windlass.kernel.driver import DriverView, TurnConfig
from windlass.kernel.effects import Emit, Progress
from windlass.kernel.events import ToolFinished
from windlass.kernel.ids import TurnIds
from windlass.kernel.messages import Message, Record
from windlass.kernel.model_call import Usage
from windlass.kernel.outcomes import Outcome
from windlass.kernel.snapshot import TurnSnapshot
from windlass.kernel.tool_call import CompletedToolCall
from windlass.kernel.transcript import Transcript

TOLD = frozenset(get_args(effects.Told))


class HeldTurn:
    """The fields of a `TurnMachine`, what callers read of them, and the effects that it queues."""

    def _load(self, config: TurnConfig, snapshot: TurnSnapshot) -> None:
        self._config = config
        self._ids = ids = TurnIds(config.session_id, config.turn_id)
        self._state: states.State = snapshot.state
        # The state that has nothing more to ask: its effect was handed out, or the turn is over.
        self._asked = snapshot.state if type(snapshot.state) is states.Ended else None
        # Whether the batch being applied did something that a Progress has to carry, if any is made.
        self._has_news = False
        self._news = config.progress
        # Effects to be told, in order. Events stand without their `Emit`, which `poll` makes.
        self._queue: deque[Any] = deque(
            [told.event if type(told) is Emit else told for told in snapshot.queue]
        )
        self._has_only_events = TOLD.isdisjoint(map(type, self._queue))
        self._event_ids = ids.event("")
        self._correlation_ids = ids.correlation("")
        self._last_event = snapshot.next_event - 1
        # The effect that events are about; 0 is the turn itself.
        self._about = 0
        self._transcript = Transcript(
            ids, snapshot.messages, snapshot.records, snapshot.told_records
        )
        self._transcript.causes = snapshot.causes
        self._transcript.next_message = snapshot.next_message
        self._iteration = snapshot.iteration
        self._offset = snapshot.iteration_offset
        self._synced = snapshot.synced_iteration
        self._last_effect = snapshot.next_effect - 1
        self._usage = snapshot.usage
        self._limit = snapshot.limit
        self._use_environment(snapshot.environment)

    def snapshot(self) -> TurnSnapshot:
        """Return the machine as a value, in constant time."""
        transcript = self._transcript
        return TurnSnapshot(
            format=TurnSnapshot.FORMAT,
            session_id=self._config.session_id,
            turn_id=self._config.turn_id,
            state=self._state,
            messages=transcript.messages,
            records=transcript.records,
            queue=tuple([told if type(told) in TOLD else Emit(event=told) for told in self._queue])
            if self._queue
            else (),
            causes=transcript.causes,
            iteration=self._iteration,
            iteration_offset=self._offset,
            synced_iteration=self._synced,
            next_effect=self._last_effect + 1,
            next_message=transcript.next_message,
            next_event=self._last_event + 1,
            told_records=transcript.told,
            usage=self._usage,
            limit=self._limit,
            environment=self._environment,
        )

    @property
    def is_done(self) -> bool:
        """Whether the turn has its outcome."""
        return type(self._state) is states.Ended

    @property
    def outcome(self) -> Outcome | None:
        """How the turn ended, once it has."""
        return self._state.outcome if isinstance(self._state, states.Ended) else None

    @property
    def ending(self) -> Outcome | None:
        """How the turn ends at the checkpoint it is at, unless something comes in there."""
        state = self._state
        return state.then if isinstance(state, states.WaitingCheckpoint) else None

    @property
    def state(self) -> str:
        """The state's name in TRANSITIONS."""
        return self._state.name

    @property
    def messages(self) -> Chain[Message]:
        """The history with this turn's messages, transient ones included."""
        return self._transcript.messages

    @property
    def records(self) -> Chain[Record]:
        """Earlier records, then what the turn stores: new messages and driver records, in order."""
        return self._transcript.records

    @property
    def iteration(self) -> int:
        """The iteration the turn is in, counted from the offset."""
        return self._iteration

    @property
    def usage(self) -> Usage:
        """What the turn's model calls used so far."""
        return self._usage

    # --- what the driver sees ---

    def _view(self) -> DriverView:
        transcript = self._transcript
        return DriverView(
            config=self._settings,
            messages=transcript.messages,
            records=transcript.records,
            causes=transcript.causes,
            iteration=self._iteration,
            iteration_offset=self._offset,
            limit=self._limit,
            ids=self._ids,
        )

    def _use_environment(self, environment: responses.Environment | None) -> None:
        """Put prompt, tools and view in force. The config itself stays what it was."""
        self._settings = self._config
        if environment is not None:
            self._settings = replace(
                self._config,
                system_prompt=environment.system_prompt,
                tools=environment.tools,
                view=environment.view,
            )
        self._environment = environment
        self._tool_names = tuple([tool.name for tool in self._settings.tools])

    # --- what it tells ---

    def _emit(self, event: events.Event) -> None:
        """Queue a copy of an event, so that its maker may use it again; ids that it has stay."""
        event_id = event.id
        if not event_id:
            self._last_event = position = self._last_event + 1
            event_id = f"{self._event_ids}{position}"
        about = event.correlation_id or f"{self._correlation_ids}{self._about}"
        self._queue.append(replace(event, id=event_id, correlation_id=about))

    def _emit_finished(self, results: Iterable[tuple[int, CompletedToolCall]]) -> None:
        for place, call in results:
            self._last_event = position = self._last_event + 1
            self._queue.append(
                ToolFinished(
                    id=f"{self._event_ids}{position}",
                    correlation_id=f"{self._correlation_ids}{self._about}.{place}",
                    call_id=call.call_id,
                    name=call.name,
                    args=call.args,
                    outcome=call.outcome,
                    duration_ms=call.duration_ms,
                )
            )

    def _tell(self, told: effects.Told) -> None:
        self._queue.append(told)
        self._has_only_events = False

    def _tell_progress(self) -> None:
        if not self._news:
            return
        self._has_news = False
        transcript = self._transcript
        self._tell(
            Progress(
                messages=transcript.messages,
                new_records=transcript.tell(),
                iteration=self._iteration,
            )
        )

    def _log(self, entry: effects.LogEntry) -> None:
        self._tell(effects.Log(entry=entry))
