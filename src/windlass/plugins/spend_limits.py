"""Spend limits: what a turn and a session may use up, kept across crashes.

    reserve   before a call: the most that it can take is written down, or refused if that is over a budget
    call      the model is asked
    settle    the reply is recorded with what it took, in place of the reservation

A crash between the first and the last leaves the reservation, which counts as spent, once, as `lost`. So what counts
is never less than what was spent, and is over a budget by no more than one call took beyond its reservation.

Of a tree's budget each child gets a part when it begins. The turn above counts all of it as spent while the child works, and
what the child did spend once it has ended. Both are written with the child, so no crash lets a tree spend more.

Length: an account is limits, what counts as spent, and what is asked; one part says nothing without the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_DOWN, Decimal
from typing import ClassVar, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from windlass.errors import ConfigError
from windlass.guards.text import is_clean
from windlass.journal import UsageLine
from windlass.journal.patch import add
from windlass.kernel.model_call import NO_USAGE, ModelReply, ModelRequest, Usage
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tokens import tokens_of_request
from windlass.kernel.value import Json, set_field
from windlass.plugins import options
from windlass.ports import Hold, Plugin, PluginTurn, Send, Stop
from windlass.ports.price import Money, Price, checked_prices, product_of, read_money, shown, sum_of

__all__ = ["Budget", "Price", "SpendLimits", "WhenSpent"]

WhenSpent: TypeAlias = Literal["stop", "ask", "cheaper"]


class SpendLimits(Plugin):
    """Keeps turns, sessions and trees of agents within budgets of tokens, money, time and calls.

    When the next call does not fit: `stop` ends the turn with `Stopped("limit")`; `ask` parks it until a person lets
    the budget grow by itself once more; `cheaper` sends the request to another model, as long as that fits.

    Args:
        turn: What one turn may use; None: any amount.
        session: What a session may use in all; None: any amount.
        tree: What a turn may use together with the children that it waits for, and theirs; None: any amount. Each child
            gets an equal part of what is left when it begins. All agents of the tree need this plugin: give it to the
            runtime.
        when_spent: What happens when the next call does not fit: `stop`, `ask` or `cheaper`.
        cheaper: The name of the model that `cheaper` moves on to.
        prices: Prices per model; a budget with a `cost` needs them.
        max_output: How many tokens a reply may have, where the agent does not bound it; 4096 if nothing is said.
    """

    name = "spend_limits"
    version = "1"
    # Calls that a tool makes with ctx.complete are paid from the same budgets.
    covers_direct_calls: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913 - every setting has a default
        self,
        *,
        turn: Budget | None = None,
        session: Budget | None = None,
        tree: Budget | None = None,
        when_spent: WhenSpent = "stop",
        cheaper: str | None = None,
        prices: Mapping[str, Price] | None = None,
        max_output: int = 4096,
    ) -> None:
        self._budgets: dict[Scope, Budget | None] = {
            "turn": _budget(turn, "turn"),
            "session": _budget(session, "session"),
            "tree": _budget(tree, "tree"),
        }
        given = [budget for budget in self._budgets.values() if budget is not None]
        if not given:
            raise ConfigError.at(
                "SpendLimits", "no budget", "one for the turn, the session or the tree"
            )
        options.choice(when_spent, get_args(WhenSpent), field="when_spent")
        self._asks = when_spent == "ask"
        self._prices = {} if prices is None else checked_prices(prices)
        has_cost = any(budget.cost is not None for budget in given)
        if has_cost and not self._prices:
            raise ConfigError("prices: found none, but a budget has a cost", field="prices")
        if when_spent == "cheaper":
            _check_cheaper(cheaper, self._prices, has_cost=has_cost)
        elif cheaper is not None:
            raise ConfigError('cheaper: wants when_spent="cheaper"', field="cheaper")
        self._cheaper = cheaper
        self._max_output = options.whole(max_output, field="max_output", low=1)

    # ------------------------------------------------------------------ hooks

    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> Send | Hold | Stop:
        """Reserve what the call may take, if every budget has room for it."""
        if request.generation.max_output_tokens is None:
            # A reservation is a bound only if the model is bound by it, too.
            generation = replace(request.generation, max_output_tokens=self._max_output)
            request = replace(request, generation=generation)
        accounts = [each for each in self._accounts(turn) if each.is_limited]
        for account in accounts:
            if not account.take_answers():
                return Stop(
                    f"The {account.scope} may not spend more: an approver said so.", "limit"
                )
        short, reserve = self._reserve(accounts, request)
        if isinstance(short, Over) and self._cheaper is not None:
            request = replace(request, model=self._cheaper)
            short, reserve = self._reserve(accounts, request)
        if short is None:
            return Send(request=request, reserve=reserve)
        if self._asks and isinstance(short, Over):
            return short.question()
        return Stop(short.sentence(), "limit")

    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> None:  # noqa: ARG002 - the port's
        """Show what is spent by now."""
        # Before there were trees, both of the others were shown, limited or not.
        shown = [each for each in self._accounts(turn) if each.scope != "tree" or each.is_limited]
        turn.emit("spend", {each.scope: each.report() for each in shown})

    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> None:  # noqa: ARG002 - the port's
        """Keep how long the turn took, if the session's time is counted."""
        session = self._budgets["session"]
        if session is not None and session.seconds is not None:
            turn.remember(took_ms=add(turn.now_ms - turn.started_ms))

    def allot(self, turn: PluginTurn, n: int) -> Json:
        """Let a child, one of `n` that are about to begin, use an equal part of what the tree has left."""
        account = self._account(turn, "tree")
        return account.part(n) if account.is_limited else None

    # ------------------------------------------------------------------ one call

    def _accounts(self, turn: PluginTurn) -> list[Account]:
        return [self._account(turn, scope) for scope in get_args(Scope)]

    def _account(self, turn: PluginTurn, scope: Scope) -> Account:
        budget = self._budgets[scope]
        amounts = {} if budget is None else budget.amounts()
        if scope == "tree" and turn.allotted is not None:
            # A part of the budget of the turn at the top, whatever this worker thinks that is.
            amounts = {what: Decimal(str(amount)) for what, amount in turn.allotted.items()}
        return Account(turn, scope, amounts, self._prices)

    def _reserve(
        self, accounts: list[Account], request: ModelRequest
    ) -> tuple[Over | Unpriced | None, Usage]:
        """Return the most that a call can take, and what has no room for it."""
        prompt = tokens_of_request(request)
        output = request.generation.max_output_tokens or self._max_output
        price = self._prices.get(request.model)
        reserve = Usage(input_tokens=prompt, output_tokens=output)
        if price is not None:
            reserve = price.dearest(prompt, output)
        found = (account.lacks(request.model, reserve) for account in accounts)
        return next((lack for lack in found if lack is not None), None), reserve


def _budget(given: object, field: str) -> Budget | None:
    if given is None or isinstance(given, Budget):
        return given
    raise ConfigError.at(field, type(given).__name__, "a Budget")


def _check_cheaper(name: object, prices: Mapping[str, Price], *, has_cost: bool) -> None:
    if not isinstance(name, str) or not name or not is_clean(name):
        raise ConfigError("cheaper: wanted the name of a model", field="cheaper")
    if not has_cost:
        wants = "a budget with a cost; tokens, time and calls are no cheaper elsewhere"
        raise ConfigError(f"cheaper: wants {wants}", field="cheaper")
    if name not in prices:
        raise ConfigError(f"prices: found none for {name}, the cheaper model", field="prices")


# ----------------------------------------------------------------------------------------- accounts


Scope: TypeAlias = Literal["turn", "session", "tree"]
# What may be answered to a question for more, in budgets.
_MOST_TIMES = 1_000_000
# How exactly a part of a sum of money is told to a child.
_CENT_PARTS = Decimal("0.000000001")


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What may be used up: tokens, money, seconds, model calls; None: as much as it takes.

    Attributes:
        tokens: Tokens of prompts and replies together.
        calls: How many model calls.
        seconds: Seconds since the start of the turn or the session.
        cost: Money, in the currency of the prices.
    """

    tokens: int | None = None
    calls: int | None = None
    seconds: float | None = None
    cost: Money | None = None

    def __post_init__(self) -> None:
        """Refuse what is not an amount.

        Raises:
            ConfigError: naming the field.
        """
        if self.tokens is self.calls is self.seconds is self.cost is None:
            raise ConfigError.at("Budget", "nothing", "tokens, cost, seconds or calls")
        for field in ("tokens", "calls"):
            if (amount := getattr(self, field)) is not None:
                options.whole(amount, field=f"Budget.{field}", low=1)
        if self.seconds is not None:
            options.seconds(self.seconds, field="Budget.seconds")
        if self.cost is not None:
            set_field(self, "cost", read_money(self.cost, field="Budget.cost"))
        if self.cost == 0:
            raise ConfigError.at("Budget.cost", 0, "an amount above 0")

    def amounts(self) -> dict[str, Decimal]:
        """Return what is limited, and to how much."""
        given = {what: getattr(self, what) for what in self.__struct_fields__}
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
            title=f"{self.sentence()} Allow it to spend as much again?",
            detail={
                "scope": self.scope,
                "budget": self.what,
                "spent": self.spent,
                "limit": self.limit,
                "next_call": self.wanted,
            },
        )


class Unpriced(NamedTuple):
    """A model without a price, where money is counted."""

    scope: Scope
    model: str

    def sentence(self) -> str:
        """Say so."""
        return f"The {self.scope} has a cost budget, and there is no price for {self.model}."


class Account:
    """What a turn, its session or its tree has spent, and may spend; `amounts` are its limits.

    How far people let it grow is kept in the turn's state or the session's memory: by `grown` budgets, in `asked`
    answers. Time grows from the moment of the answer on, or waiting for it would spend it: by `more_ms`.
    """

    def __init__(
        self,
        turn: PluginTurn,
        scope: Scope,
        amounts: dict[str, Decimal],
        prices: Mapping[str, Price],
    ) -> None:
        self.scope: Scope = scope
        self._amounts = amounts
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
        if scope == "tree":
            self._count_children(turn.allotments)
        kept = turn.memory if scope == "session" else turn.state
        if scope == "tree":
            kept = kept.get("tree", {})
        self.ms: int = max(0, turn.now_ms - turn.started_ms) + kept.get("took_ms", 0)
        self._asked: int = kept.get("asked", 0)
        self._times = sum_of(Decimal(1), Decimal(str(kept.get("grown", 0))))
        self._more_ms: int = kept.get("more_ms", 0)

    def _count_children(self, allotments: Iterable[Json]) -> None:
        """Count all that children at work may use as spent."""
        for one in allotments:
            self.tokens += int(one.get("tokens", 0))
            self.calls += int(one.get("calls", 0))
            more = Decimal(str(one.get("cost", 0)))
            self.bill = self.bill._replace(cost=sum_of(self.bill.cost, more))

    @property
    def is_limited(self) -> bool:
        """Whether there is a budget."""
        return bool(self._amounts)

    def part(self, n: int) -> Json:
        """Return an equal part, one of `n`, of what is left; time is not divided. Money is text, for it is exact."""
        limits, found = self._limits(), dict[str, Json]()
        for what, spent in (("tokens", self.tokens), ("calls", self.calls)):
            if what in limits:
                found[what] = max(0, int(limits[what]) - spent) // n
        if "cost" in limits:
            left = max(Decimal(0), sum_of(limits["cost"], -self.bill.cost))
            found["cost"] = shown((left / n).quantize(_CENT_PARTS, rounding=ROUND_DOWN))
        if "seconds" in limits:
            found["seconds"] = max(0, self._allowed_ms() - self.ms) / 1000
        return found

    def take_answers(self) -> bool:
        """Grow the budget as people answered; return whether none of them said no."""
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
            grown: dict[str, Json] = {
                "asked": add(1), "grown": add(times), "more_ms": add(more_ms)
            }  # fmt: skip
            if self.scope == "session":
                self._turn.remember(**grown)
            elif self.scope == "turn":
                self._turn.patch(**grown)
            else:
                self._turn.patch(tree=grown)
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
        return {what: product_of(amount, self._times) for what, amount in self._amounts.items()}

    def _seconds(self) -> float:
        return float(self._amounts.get("seconds", 0))

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
    return factor if options.is_number(factor) and 0 < factor <= _MOST_TIMES else None


# -------------------------------------------------------------------------------------------- bills


class Bill(NamedTuple):
    """What usage costs. `unpriced` names a model that was used and has no price: the cost is at least this."""

    cost: Decimal = Decimal(0)
    unpriced: str | None = None


def bill(lines: Iterable[UsageLine], prices: Mapping[str, Price]) -> Bill:
    """Return what usage costs; a call that used nothing needs no price."""
    total, unpriced = Decimal(0), None
    for line in lines:
        price = prices.get(line.model)
        if price is not None:
            total = sum_of(total, price.cost(line.usage))
        elif line.usage != NO_USAGE:
            unpriced = unpriced or line.model
    return Bill(cost=total, unpriced=unpriced)
