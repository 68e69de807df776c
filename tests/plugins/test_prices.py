"""What tokens cost: exact, whatever the program's own decimal context."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from windlass.errors import ConfigError
from windlass.journal import UsageLine
from windlass.kernel import Usage
from windlass.plugins.spend_limits import Bill, bill
from windlass.ports.price import Price, read_money, shown

SONNET = Price(input=3, output=15, cached_input="0.30", cache_write=3.75)


def test_each_kind_of_token_has_its_price() -> None:
    usage = Usage(
        input_tokens=1_000,
        cached_input_tokens=10_000,
        cache_write_tokens=2_000,
        output_tokens=500,
        reasoning_tokens=400,  # within output: not paid twice
    )
    # 0.003 + 0.003 + 0.0075 + 0.0075
    assert SONNET.cost(usage) == Decimal("0.021")


def test_cached_tokens_cost_what_fresh_ones_do_unless_it_is_said() -> None:
    plain = Price(input=2, output=0)
    assert plain.cost(Usage(cached_input_tokens=500_000)) == 1
    assert plain.cost(Usage(cache_write_tokens=500_000)) == 1
    assert Price(input=2, output=0, cached_input=0).cost(Usage(cached_input_tokens=9)) == 0


def test_a_float_is_taken_for_what_it_prints() -> None:
    tenth = Price(input=0.1, output=0.2)
    assert tenth.cost(Usage(input_tokens=3)) == Decimal("0.0000003")
    assert tenth.cost(Usage(input_tokens=1, output_tokens=1)) == Decimal("0.0000003")


def test_sums_of_money_are_not_rounded_by_the_programs_own_context() -> None:
    with localcontext(prec=2):
        price = Price(input="0.123456789123456789", output=1)
        found = price.cost(Usage(input_tokens=2**63 - 1))
        both = bill([_line("m", 10**15 + 1), _line("m", 1)], {"m": Price(input=1, output=1)})
    assert Fraction(found) == Fraction(123456789123456789 * (2**63 - 1), 10**24)
    assert both.cost == Decimal("1000000000.000002")


def test_a_reservation_is_of_the_dearest_tokens_that_a_prompt_can_be() -> None:
    assert SONNET.dearest(10, 5) == Usage(cache_write_tokens=10, output_tokens=5)
    assert Price(input=3, output=15).dearest(10, 5) == Usage(input_tokens=10, output_tokens=5)
    cheap_writes = Price(input=3, output=15, cache_write=1)
    assert cheap_writes.dearest(10, 5) == Usage(input_tokens=10, output_tokens=5)


def test_a_bill_names_a_model_without_a_price() -> None:
    lines = [_line("m", 1_000_000), _line("other", 5)]
    found = bill(lines, {"m": SONNET})
    assert found == Bill(cost=Decimal(3), unpriced="other")


def test_a_call_that_used_nothing_needs_no_price() -> None:
    assert bill([UsageLine(source="turn", model="other", calls=1)], {}) == Bill()


@pytest.mark.parametrize(
    ("amount", "wanted"),
    [
        ("0", "0"),
        ("0.00", "0"),
        ("10", "10"),
        ("1E+3", "1000"),
        ("0.0210", "0.021"),
        ("1E-7", "0.0000001"),
    ],
)
def test_money_is_shown_as_people_write_it(amount: str, wanted: str) -> None:
    assert shown(Decimal(amount)) == wanted


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (-1, "-1"),
        (-0.5, "-0.5"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ("much", "much"),
        ("NaN", "NaN"),
        ("1e-19", "1e-19"),
        ("1e400", "1e400"),
        (True, "bool"),
        (None, "NoneType"),
        ([3], "list"),
        (10**12, "1000000000000"),
        pytest.param(10**5000, "int", id="digits without end"),
    ],
)
def test_what_is_no_amount_of_money_is_refused_and_shown(given: object, found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_money(given, field="Price.output")
    assert str(caught.value).startswith(f"Price.output: found {found}, wanted an amount")
    assert caught.value.field == "Price.output"


@pytest.mark.parametrize("field", ["input", "output", "cached_input", "cache_write"])
def test_a_price_names_the_field_that_is_wrong(field: str) -> None:
    amounts = {"input": 1.0, "output": 1.0, field: -1.0}
    with pytest.raises(ConfigError) as caught:
        Price(**amounts)
    assert caught.value.field == f"Price.{field}"


def _line(model: str, tokens: int) -> UsageLine:
    return UsageLine(source="turn", model=model, calls=1, usage=Usage(input_tokens=tokens))
