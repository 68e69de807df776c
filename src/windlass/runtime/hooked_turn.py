"""What a plugin sees and knows of one turn: the turn that its hooks receive, its state and its memory.

State and memory change by patches alone, which are recorded with the outcome of the effect that the hook ran in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar, cast

from windlass.errors import CallerError, ConfigError
from windlass.guards.limits import check_limit
from windlass.guards.secret import REGISTERED
from windlass.journal import PluginRemembered
from windlass.journal.patch import patched, recorded
from windlass.journal.redaction import clean_json
from windlass.kernel import Attachment, ModelReply, ModelRequest, canonical, events
from windlass.kernel.value import EMPTY_DICT, Json, freeze
from windlass.ports.children import Tree
from windlass.ports.plugin_turn import PluginTurn
from windlass.runtime.body import Asks
from windlass.runtime.children import open_children
from windlass.runtime.turn import Turn

T = TypeVar("T")

Patches: TypeAlias = Mapping[str, Mapping[str, Any]]
"""By plugin, then `state` or `memory`: the changes in their order."""


class PluginStates:
    """The states of one turn's plugins."""

    __slots__ = ("_memories", "_remembered", "_states")

    def __init__(self, memories: Mapping[str, Mapping[str, Any]]) -> None:
        self._states: dict[str, Mapping[str, Any]] = {}
        self._memories = memories
        self._remembered: dict[str, Mapping[str, Any]] = {}

    def copy(self) -> PluginStates:
        """Return the states as they are now; neither sees what is applied to the other."""
        own = PluginStates(self._memories)
        own._states, own._remembered = {**self._states}, {**self._remembered}
        return own

    def state(self, plugin: str) -> Mapping[str, Any]:
        """Return a plugin's state in this turn."""
        return self._states.get(plugin, EMPTY_DICT)

    def memory(self, plugin: str) -> Mapping[str, Any]:
        """Return what a plugin keeps for the session."""
        found = self._remembered.get(plugin)
        return self._memories.get(plugin, EMPTY_DICT) if found is None else found

    def apply(self, patches: Patches) -> None:
        """Take in what a recorded outcome brought."""
        for plugin, changes in patches.items():
            if "state" in changes:
                self._states[plugin] = folded(self.state(plugin), changes["state"])
            if "memory" in changes:
                self._remembered[plugin] = folded(self.memory(plugin), changes["memory"])

    def nodes(self) -> Iterator[PluginRemembered]:
        """Return the memories that the turn changed."""
        for plugin in sorted(self._remembered):
            memory = self._remembered[plugin]
            if memory != self._memories.get(plugin, EMPTY_DICT):
                yield PluginRemembered(plugin=plugin, memory=dict(memory))


def folded(base: Mapping[str, Any], changes: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return `base` with changes applied in order."""
    for change in changes:
        base = patched(base, change)
    return base


def checked(changes: Mapping[str, Any], *, plugin: str) -> Mapping[str, Any]:
    """Return a plugin's changes as they are recorded.

    Raises:
        InvalidInput: they are not JSON.
        LimitExceeded: they are too large to be a state.
    """
    made = {kind: [recorded(change) for change in several] for kind, several in changes.items()}
    frozen: Mapping[str, Any] = freeze(made, field=f"{plugin}.patch")
    if REGISTERED.secrets:
        frozen = freeze(clean_json(frozen))
    check_limit("schema_bytes", len(canonical.encode(frozen)), field=f"{plugin}.patch")
    return frozen


class Place:
    """Where hooks run one after the other: in which effect, with which states, and what they change and note there.

    Aside from the `main` place, what is changed at a place is seen there alone: for what happens side by side.
    """

    __slots__ = ("_changes", "changed", "issues", "main", "round", "rounds", "states", "turns")

    def __init__(self, states: PluginStates, main: Place | None = None) -> None:
        self.states = states
        self.main = main
        self.turns: dict[str, HookedTurn] = {}
        # By hook the rounds in which plugins are asked here, and the one under way.
        self.rounds: dict[str, Any] = {}
        self.round: Any = None
        # The turns whose plugins changed something that is not kept yet.
        self.changed: list[HookedTurn] = []
        self._changes: dict[str, dict[str, list[Any]]] = {}
        # What was noted, for the outcome in which it arose.
        self.issues: list[events.Error] = []

    @property
    def about(self) -> str:
        """What the hooks that are asked here are about, as events name it."""
        asked = self.round
        return "0" if asked is None else asked.about or asked.where or "0"

    def see(self, patches: Patches) -> None:
        """Show changes to the hooks that run here from now on."""
        if self.main is not None and self.states is self.main.states:
            self.states = self.states.copy()
        self.states.apply(patches)

    def keep(self, plugin: str, changes: Mapping[str, Any]) -> None:
        """Keep a plugin's changes for the outcome that records them; its next hook here sees them."""
        self.see({plugin: changes})
        kept = self._changes.setdefault(plugin, {})
        for kind, patches in changes.items():
            kept.setdefault(kind, []).extend(patches)

    def take(self) -> dict[str, Any]:
        """Return what hooks changed since the last time, for the outcome that is about to be recorded."""
        if not self._changes:
            return EMPTY_DICT
        taken, self._changes = self._changes, {}
        return taken

    def take_issues(self) -> tuple[events.Error, ...]:
        """Return what was noted since the last time, for the outcome that is about to be recorded."""
        if not self.issues:
            return ()
        issues, self.issues = self.issues, []
        return tuple(issues)


class Asker:
    """What asks the plugins of a turn: all that their hooks share."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        # What answers the model calls of plugins, while the turn is driven.
        self.models: Asks | None = None
        # What people answered to the holds of the current model call, by plugin and key.
        self.held: dict[str, dict[str, Json]] = {}


def _of(read: Callable[[Turn], T]) -> T:
    """Return the property of a plugin's turn that reads the turn itself."""
    return cast("T", property(lambda own: read(own._turn)))  # noqa: SLF001 - its own


def _model_of(turn: Turn) -> str:
    if turn.started is not None:
        return turn.started.model
    wanted: str = turn.request.overrides.get("model", turn.program.model.name)
    return wanted


def _started_ms(turn: Turn) -> int:
    return turn.services.clock.now_ms() if turn.started is None else turn.started.started_ms


class HookedTurn(PluginTurn):
    """The turn as one plugin's hooks see it at one place."""

    __slots__ = ("_asker", "_changes", "_turn", "name", "place")

    def __init__(self, asker: Asker, name: str, place: Place) -> None:
        self._asker = asker
        self._turn = asker.turn
        self._changes: dict[str, list[Mapping[str, Any]]] = {}
        self.name = name
        self.place = place

    session_id = _of(lambda turn: turn.session_id)
    turn_id = _of(lambda turn: turn.turn_id)
    agent = _of(lambda turn: turn.program.name)
    model = _of(_model_of)
    context = _of(lambda turn: turn.request.context)
    deps = _of(lambda turn: turn.deps)
    iteration = _of(lambda turn: turn.iteration)
    max_iterations = _of(lambda turn: turn.limits.max_iterations)
    now_ms = _of(lambda turn: turn.services.clock.now_ms())
    started_ms = _of(_started_ms)
    recovered = _of(lambda turn: turn.is_recovered)
    messages = _of(lambda turn: turn.history_now())
    turn_messages = _of(lambda turn: turn.messages_so_far())
    tools = _of(lambda turn: turn.offered)
    system_prompt = _of(lambda turn: turn.system_prompt)
    usage = _of(lambda turn: turn.spent.lines())
    reserved = _of(lambda turn: tuple(turn.spent.reserved.values()))
    session_usage = _of(lambda turn: turn.memory.usage)

    @property
    def allotted(self) -> Json:
        return Tree.of(self._turn.request).allotted.get(self.name)

    @property
    def allotments(self) -> tuple[Json, ...]:
        given = (one.get("allotted") or {} for one in open_children(self._turn))
        return tuple(one[self.name] for one in given if self.name in one)

    @property
    def state(self) -> Mapping[str, Any]:
        return self.place.states.state(self.name)

    @property
    def memory(self) -> Mapping[str, Any]:
        return self.place.states.memory(self.name)

    @property
    def answers(self) -> Mapping[str, Json]:
        return self._asker.held.get(self.name, EMPTY_DICT)

    def patch(self, **changes: Json) -> None:
        self._change("state", changes)

    def remember(self, **changes: Json) -> None:
        self._change("memory", changes)

    def _change(self, kind: str, changes: Mapping[str, Any]) -> None:
        if not self._changes:
            self.place.changed.append(self)
        self._changes.setdefault(kind, []).append(changes)

    def take_changes(self) -> dict[str, list[Mapping[str, Any]]]:
        """Return what a hook changed, and forget it."""
        if self._changes:
            self.place.changed.remove(self)
        changes, self._changes = self._changes, {}
        return changes

    def emit(self, name: str, data: Json = None) -> None:
        # A preview that cannot be shown does not make a hook fail.
        with suppress(CallerError):
            event = events.PluginEvent(plugin=self.name, name=name, data=data)
            self._turn.tell(event, self.place.about)

    async def attach(
        self, data: bytes, *, media_type: str = "application/octet-stream", name: str | None = None
    ) -> Attachment:
        return await self._turn.attach(data, media_type, name)

    async def read(self, ref: str) -> bytes:
        return await self._turn.services.store.get_blob(ref)

    async def complete(self, request: ModelRequest) -> ModelReply:
        models, asked = self._asker.models, self.place.round
        if models is None or asked is None:
            raise ConfigError("complete: no model can be asked here", field="complete")
        place = f"{asked.where}.{self.name}.{asked.hook}"
        return await models.direct(request, place, f"plugin:{self.name}")
