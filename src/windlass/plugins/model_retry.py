"""Model retry: a call that failed is made again, then by another model; a model that keeps failing is left alone.

    attempt 1 … attempts   the same model, after a wait that grows
    the next fallback      the same again, at once
    no fallback left       the runtime's own patience: the turn parks on a timer

A model that failed `breaker` times in a row, over all turns of the session, is not asked for `breaker_s` seconds: its
calls begin with a fallback. After that it gets one try, which closes the breaker or opens it again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.errors import ConfigError, Throttled
from windlass.errors import Retry as Repeat
from windlass.guards.text import is_clean
from windlass.journal.patch import add
from windlass.kernel import ModelReply, ModelRequest, canonical
from windlass.plugins.options import number, refused, whole
from windlass.ports import Plugin, PluginTurn, Trouble
from windlass.ports.directives import Continue, ErrorDirective, Retry

_DAY_S = 86_400.0


class ModelRetry(Plugin):
    """Makes failed model calls again, and moves on to other models when one is down.

    Args:
        attempts: How often one model is asked in all; 3 if nothing is said.
        first_s: Seconds before the second attempt; 0.5 if nothing is said.
        factor: By how much each pause is longer than the one before; 2 doubles it.
        max_s: Seconds that no pause exceeds; 10 if nothing is said.
        jitter: The share of a pause that may be taken off at random, so that workers do not ask in step.
        fallbacks: Names of models to ask next, in order, when one is down.
        breaker: After how many failures in a row a model is left alone for a while; None: never.
        breaker_s: Seconds for which it is left alone; 60 if nothing is said.
    """

    name = "model_retry"
    version = "1"

    def __init__(  # noqa: PLR0913 - what a retry is made of
        self,
        *,
        attempts: int = 3,
        first_s: float = 0.5,
        factor: float = 2,
        max_s: float = 10,
        jitter: float = 0.5,
        fallbacks: Sequence[str] = (),
        breaker: int | None = 5,
        breaker_s: float = 60,
    ) -> None:
        self._attempts = whole(attempts, field="attempts", low=1)
        self._first_s = number(first_s, 0, _DAY_S, field="first_s")
        self._factor = number(factor, 1, 1_000, field="factor")
        self._max_s = number(max_s, 0, _DAY_S, field="max_s")
        self._jitter = number(jitter, 0, 1, field="jitter")
        self._fallbacks = _names(fallbacks, field="fallbacks")
        self._breaker = None if breaker is None else whole(breaker, field="breaker", low=1)
        self._breaker_s = number(breaker_s, 0, _DAY_S, field="breaker_s")

    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> ModelRequest | None:
        """Send the request past a model that is known to be down."""
        model = request.model
        if self._is_open(turn, model):
            model = next((name for name in self._closed(turn, self._fallbacks)), model)
        _note_asked(turn, model)
        return None if model == request.model else msgspec.structs.replace(request, model=model)

    async def on_error(self, turn: PluginTurn, trouble: Trouble) -> ErrorDirective | None:
        """Say when and by whom a failed call is made again."""
        error = trouble.error
        if trouble.kind != "model" or error is None or error.retry is not Repeat.LATER:
            return None  # what was refused once is refused again
        is_open = self._count_failure(turn, trouble.model)
        if not is_open and trouble.attempt < self._attempts:
            return Retry(after_s=self._wait_s(turn, trouble))
        later = self._fallbacks
        if trouble.model in later:
            later = later[later.index(trouble.model) + 1 :]
        for model in self._closed(turn, later):
            _note_asked(turn, model)
            return Retry(model=model)
        return Continue()

    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> None:  # noqa: ARG002 - the port's
        """Close the breaker of the model that answered."""
        model = turn.state.get("asked", turn.model)
        if model in turn.memory.get("models", {}):
            turn.remember(models={model: None})

    # ------------------------------------------------------------------ the breaker

    def _is_open(self, turn: PluginTurn, model: str) -> bool:
        kept = _kept(turn, model)
        if self._breaker is None or kept.get("failures", 0) < self._breaker:
            return False
        return bool(turn.now_ms < kept.get("open_until_ms", 0))

    def _closed(self, turn: PluginTurn, models: Sequence[str]) -> list[str]:
        return [model for model in models if not self._is_open(turn, model)]

    def _count_failure(self, turn: PluginTurn, model: str) -> bool:
        """Count one more failure in a row; return whether the model is left alone from now on."""
        if self._breaker is None:
            return False
        change: dict[str, Any] = {"failures": add(1)}
        is_open: bool = _kept(turn, model).get("failures", 0) + 1 >= self._breaker
        if is_open:
            change["open_until_ms"] = turn.now_ms + int(self._breaker_s * 1000)
        turn.remember(models={model: change})
        return is_open

    # ------------------------------------------------------------------ the wait

    def _wait_s(self, turn: PluginTurn, trouble: Trouble) -> float:
        """Return how long to wait: longer each time, spread so that not all come back at once."""
        base = self._first_s
        for _ in range(trouble.attempt - 1):
            base = min(self._max_s, base * self._factor)
        base = min(self._max_s, base)
        spread = base * self._jitter * _share(turn, trouble)
        wish = trouble.error.retry_after_s if isinstance(trouble.error, Throttled) else None
        if not isinstance(wish, (int, float)) or not math.isfinite(wish) or wish <= 0:
            return base - spread
        return max(base - spread, min(self._max_s, wish + spread))


def _note_asked(turn: PluginTurn, model: str) -> None:
    """Remember which model is asked, for `after_model`; the turn's own model is not written down."""
    if turn.state.get("asked", turn.model) != model:
        turn.patch(asked=model)


def _kept(turn: PluginTurn, model: str) -> Mapping[str, Any]:
    models: Mapping[str, Mapping[str, Any]] = turn.memory.get("models", {})
    return models.get(model, {})


def _share(turn: PluginTurn, trouble: Trouble) -> float:
    """Return a number from 0 to 1 that differs from turn to turn and from try to try."""
    place = [turn.session_id, turn.turn_id, turn.iteration, trouble.model, trouble.attempt]
    return int(canonical.digest(place)[:8], 16) / 0xFFFF_FFFF


def _names(found: object, *, field: str) -> tuple[str, ...]:
    wanted = "names of models, each once"
    if not isinstance(found, (list, tuple)):
        raise refused(found, wanted, field=field)
    are_names = all(isinstance(name, str) and name and is_clean(name) for name in found)
    if not are_names or len(set(found)) < len(found):
        raise ConfigError.at(field, "another list", wanted)
    return tuple(found)
