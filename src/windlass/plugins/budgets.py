"""Budgets, and the accounts that are held against them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias

from windlass.errors import ConfigError
from windlass.journal.patch import add
from windlass.kernel.model_call import Usage
from windlass.kernel.value import Json
from windlass.plugins.options import whole
from windlass.plugins.prices import Money, Price, bill, product_of, read_money, shown, sum_of
from windlass.ports.directives import Hold
from windlass.ports.plugin_turn import PluginTurn

Scope: TypeAlias = Literal["turn", "session"]
# What may be answered to a question for more, in budgets.
_MOST_TIMES = 1_000_000


class Budget:
    """What may be used up: tokens, money, seconds, model calls; None: as much as it takes."""

    __slots__ = ("calls", "cost", "seconds", "tokens")

    def __init__(
        self,
        *,
        tokens: int | None = None,
        cost: Money | None = None,
        seconds: float | None = None,
        calls: int | None = None,
    ) -> None:
        if tokens is cost is seconds is calls is None:
            raise ConfigError(
                "Budget: found nothing, wanted tokens, cost, seconds or calls", field="Budget"
            )
        self.tokens = None if tokens is None else whole(tokens, field="Budget.tokens", low=1)
        self.calls = None if calls is None else whole(calls, field="Budget.calls", low=1)
        self.seconds = None if seconds is None else _read_seconds(seconds, field="Budget.seconds")
        self.cost = None if cost is None else read_money(cost, field="Budget.cost")
        if self.cost == 0:
            raise ConfigError(
                "Budget.cost: found 0, wanted an amount above 0", field="Budget.cost", found=0
            )

    def amounts(self) -> dict[str, Decimal]:
        """Return what is limited, and to how much."""
        given = {
            "tokens": self.tokens,
            "calls": self.calls,
            "seconds": self.seconds,
            "cost": self.cost,
        }
        return {what: Decimal(str(amount)) for what, amount in given.items() if amount is not None}


class Over(NamedTuple):
    """A budget without room for the next call, which may take `wanted`."""

    scope: Scope
    asked: int
    what: str
    spent: Json
    limit: Json
    wanted: Json = None

    def sentence(self) -> str:
        """Say so."""
        unit = "in cost" if self.what == "cost" else self.what
        spent = f"{_said(self.spent)} of {_said(self.limit)} {unit}"
        said = f"The {self.scope} is out of budget: it spent {spent}"
        if self.wanted is None:
            return f"{said}."
        return f"{said}, and the next call may take {_said(self.wanted)} more."

    def question(self) -> Hold:
        """Ask a person for more."""
        return Hold(
            key=f"{self.scope}-{self.asked}",
            title=f"{self.sentence()} Let it spend as much again?",
            detail={
                "scope": self.scope,
                "budget": self.what,
                "spent": self.spent,
                "limit": self.limit,
                "next_call": self.wanted,
            },
        )


class Unpriced(NamedTuple):
    """A model that costs nobody knows what, where money is counted."""

    scope: Scope
    model: str

    def sentence(self) -> str:
        """Say so."""
        return f"The {self.scope} has a cost budget, and there is no price for {self.model}."


class Account:
    """What a turn or its session has spent, and may spend.

    How far people let it grow is kept in the turn's state or the session's memory: by `grown` budgets, in `asked`
    answers. Time grows from the moment of the answer on, or waiting for it would spend it: by `more_ms`.
    """

    def __init__(
        self, turn: PluginTurn, scope: Scope, budget: Budget | None, prices: Mapping[str, Price]
    ) -> None:
        self.scope: Scope = scope
        self.budget = budget
        self._turn = turn
        self._prices = prices
        # What tools reserved for calls that are under way is as good as spent.
        lines = (*turn.usage, *turn.reserved)
        if scope == "session":
            lines = (*turn.session_usage, *lines)
        self.tokens = sum(line.usage.prompt_tokens + line.usage.output_tokens for line in lines)
        self.calls = sum(line.calls for line in lines)
        self.lost = sum(line.lost for line in lines)
        self.bill = bill(lines, prices)
        kept = turn.state if scope == "turn" else turn.memory
        self.ms: int = max(0, turn.now_ms - turn.started_ms) + kept.get("took_ms", 0)
        self._asked: int = kept.get("asked", 0)
        self._times = sum_of(Decimal(1), Decimal(str(kept.get("grown", 0))))
        self._more_ms: int = kept.get("more_ms", 0)

    def take_answers(self) -> bool:
        """Let the budget grow as people answered; return whether none of them said no."""
        answers = self._turn.answers
        while (key := f"{self.scope}-{self._asked}") in answers:
            times = _read_times(answers[key])
            if times is None:
                return False
            more_ms = 0
            if seconds := self._seconds():
                waited_ms = max(0, self.ms - self._allowed_ms())
                more_ms = waited_ms + int(times * 1000 * seconds)
            self._asked += 1
            self._times = sum_of(self._times, Decimal(str(times)))
            self._more_ms += more_ms
            keep = self._turn.patch if self.scope == "turn" else self._turn.remember
            keep(asked=add(1), grown=add(times), more_ms=add(more_ms))
        return True

    def lacks(self, model: str, reserve: Usage) -> Over | Unpriced | None:
        """Return what stands against a call that takes this much."""
        return next(self._lacks(model, reserve), None)

    def _lacks(self, model: str, reserve: Usage) -> Iterator[Over | Unpriced]:
        limits = self._limits()
        if "cost" in limits:
            price, cost = self._prices.get(model), self.bill.cost
            if price is None or self.bill.unpriced is not None:
                yield Unpriced(self.scope, model if price is None else str(self.bill.unpriced))
            elif sum_of(cost, price.cost(reserve)) > (most := limits["cost"]):
                wanted = shown(price.cost(reserve))
                yield Over(self.scope, self._asked, "cost", shown(cost), shown(most), wanted)
        wanted_tokens = reserve.prompt_tokens + reserve.output_tokens
        if "tokens" in limits and self.tokens + wanted_tokens > (most := limits["tokens"]):
            yield Over(self.scope, self._asked, "tokens", self.tokens, int(most), wanted_tokens)
        if "calls" in limits and self.calls + 1 > (most := limits["calls"]):
            yield Over(self.scope, self._asked, "calls", self.calls, int(most))
        if "seconds" in limits and self.ms >= self._allowed_ms():
            most_s = self._allowed_ms() / 1000
            yield Over(self.scope, self._asked, "seconds", self.ms / 1000, most_s)

    def report(self) -> Json:
        """Return what is spent, and the limits that there are now; money is text, for it is exact."""
        limits: dict[str, Json] = {}
        for what, most in self._limits().items():
            limits[what] = shown(most) if what == "cost" else int(most)
        if "seconds" in limits:
            limits["seconds"] = self._allowed_ms() / 1000
        return {
            "tokens": self.tokens,
            "calls": self.calls,
            "lost": self.lost,
            "seconds": self.ms / 1000,
            "cost": None if self.bill.unpriced is not None else shown(self.bill.cost),
            "limits": limits,
        }

    def _limits(self) -> dict[str, Decimal]:
        """Return the budget as it has grown."""
        given = {} if self.budget is None else self.budget.amounts()
        return {what: product_of(amount, self._times) for what, amount in given.items()}

    def _seconds(self) -> float:
        return 0.0 if self.budget is None else self.budget.seconds or 0.0

    def _allowed_ms(self) -> int:
        return int(self._seconds() * 1000) + self._more_ms


def _said(amount: Json) -> str:
    return f"{amount:,}" if isinstance(amount, int) else str(amount)


def _read_times(answer: Json) -> float | None:
    """Return by how many budgets more a person lets it grow; None: by none. Only a clear yes is one."""
    if answer is None or answer is True:
        return 1
    if not isinstance(answer, dict):
        return None
    factor = answer.get("factor", 1)
    if not isinstance(factor, (int, float)) or isinstance(factor, bool):
        return None
    return factor if math.isfinite(factor) and 0 < factor <= _MOST_TIMES else None


def _read_seconds(found: object, *, field: str) -> float:
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    if is_number and math.isfinite(found) and 0 < found <= 3.2e11:  # type: ignore[arg-type,operator]  # a number
        return float(found)  # type: ignore[arg-type]  # a number
    shown_as = found if is_number else type(found).__name__
    wanted = "seconds above 0"
    raise ConfigError(
        f"{field}: found {shown_as}, wanted {wanted}", field=field, found=shown_as, wanted=wanted
    )
