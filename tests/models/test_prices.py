"""What models cost: what somebody said, what the price list knows, and nothing where nobody knows."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import genai_prices
import pytest
from genai_prices.types import ModelPrice, Tier, TieredPrices

from windlass import Agent, Runtime
from windlass.api.usage_report import UsageReport
from windlass.errors import ConfigError
from windlass.journal import UsageLine
from windlass.kernel import ModelReply, Usage
from windlass.models import prices
from windlass.models.prices import cost_of, price_of
from windlass.plugins import Price as PluginPrice
from windlass.ports.price import Price, checked_prices
from windlass.testing import ScriptedModel

MILLION = 1_000_000
CHEAP = Price(input=1, output=2)


def line(model: str, calls: int = 1, **usage: int) -> UsageLine:
    return UsageLine(source="turn", model=model, calls=calls, usage=Usage(**usage))


# --- the price list -------------------------------------------------------------------------------


def test_a_known_model_costs_what_the_list_says_bucket_by_bucket() -> None:
    usage = Usage(
        input_tokens=1_000,
        cached_input_tokens=10_000,
        cache_write_tokens=2_000,
        output_tokens=500,
        reasoning_tokens=400,  # within output: not paid twice
    )
    # 3, 0.30, 3.75 and 15 dollars for a million: 0.003 + 0.003 + 0.0075 + 0.0075
    assert cost_of("anthropic:claude-sonnet-4-5", usage) == Decimal("0.021")


@pytest.mark.parametrize(
    ("ours", "provider", "model"),
    [
        ("anthropic:claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("openai:gpt-5", "openai", "gpt-5"),
        ("openai-chat:gpt-4o-mini", "openai", "gpt-4o-mini"),
        ("google:gemini-2.5-flash", "google", "gemini-2.5-flash"),
        ("google:models/gemini-2.5-pro", "google", "gemini-2.5-pro"),
        ("openrouter:anthropic/claude-sonnet-4.5", "openrouter", "anthropic/claude-sonnet-4.5"),
    ],
)
def test_the_lists_own_sum_is_the_same(ours: str, provider: str, model: str) -> None:
    for n_input, n_cached, n_written in ((700, 200, 100), (700_000, 200_000, 100_000)):
        usage = Usage(input_tokens=n_input, cached_input_tokens=n_cached, output_tokens=n_written)
        theirs = genai_prices.calc_price(
            genai_prices.Usage(
                input_tokens=n_input + n_cached,
                cache_read_tokens=n_cached,
                output_tokens=n_written,
            ),
            model,
            provider_id=provider,
        )
        assert cost_of(ours, usage) == theirs.total_price
        assert theirs.total_price > 0


@pytest.mark.parametrize(
    "name",
    [
        "anthropic:claude-of-next-year",
        "openai:my-gpt-4o",
        "google:gemma-3",  # listed without a price, which is not a price of nothing
        "google:gemini-embedding-001",  # no price for what it writes: it writes nothing
        "ollama:llama3",
        "vllm:qwen",
        "scripted",
        "gpt-4o",
        "openai:",
        "local:",
        "demo:",
        "my-demo",
        ":gpt-4o",
        "",
    ],
)
def test_what_nobody_knows_is_none_and_not_zero(name: str) -> None:
    assert cost_of(name, Usage(input_tokens=MILLION)) is None
    assert cost_of(name, Usage()) is None


def test_the_model_in_this_process_is_free() -> None:
    for name in ("local:smollm2", "demo"):
        assert cost_of(name, Usage(input_tokens=MILLION, output_tokens=MILLION)) == 0


def test_a_long_prompt_costs_more_and_many_short_ones_do_not() -> None:
    long = Usage(input_tokens=400_000)
    dear = cost_of("google:gemini-2.5-pro", long)
    plain = cost_of("google:gemini-2.5-pro", long, calls=4)
    # 2.50 and 1.25 dollars for a million; the step is at 200,000 tokens in one prompt.
    assert (dear, plain) == (Decimal(1), Decimal("0.5"))


def test_a_step_begins_behind_its_number_and_the_last_one_counts() -> None:
    listed = TieredPrices(
        base=Decimal(1),
        tiers=[Tier(start=10, price=Decimal(2)), Tier(start=20, price=Decimal(3))],
    )
    rates = [prices._rate(listed, n) for n in (0, 10, 11, 20, 21)]
    assert rates == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    "charge", ["requests_kcount", "input_text_messages_kcount", "output_reasoning_mtok"]
)
def test_a_model_that_does_not_charge_by_the_token_alone_has_no_known_price(charge: str) -> None:
    by_token = {"input_mtok": Decimal(1), "output_mtok": Decimal(2)}
    assert prices._price(ModelPrice(**by_token), 0) is not None
    assert prices._price(ModelPrice(**by_token, **{charge: Decimal(5)}), 0) is None


def test_without_the_price_list_only_what_was_said_is_known() -> None:
    code = (
        "import sys; sys.modules['genai_prices'] = None\n"
        "from windlass.kernel import Usage\n"
        "from windlass.models.prices import cost_of\n"
        "from windlass.ports.price import Price\n"
        "name, used = 'anthropic:claude-sonnet-4-5', Usage(input_tokens=1_000_000)\n"
        "print(cost_of(name, used), cost_of(name, used, {name: Price(input=3, output=15)}))"
    )
    assert _run(code) == "None 3.000000"


def test_nobody_pays_for_the_price_list_who_does_not_ask() -> None:
    code = (
        "import sys\n"
        "from windlass import Agent\n"
        "from windlass.testing import ScriptedModel, say\n"
        "result = Agent('a', model=ScriptedModel([say('hi')])).run_sync('hi')\n"
        "known = ['genai_prices' in sys.modules, result.usage.cost]\n"
        "from windlass.models.prices import price_of\n"
        "price_of('openai:gpt-5')\n"
        "print(*known, 'genai_prices' in sys.modules)"
    )
    assert _run(code) == "False None True"


# --- prices of one's own --------------------------------------------------------------------------


def test_a_price_that_was_given_goes_first() -> None:
    given = {"openai:gpt-5": CHEAP, "ollama:llama3": Price(input=0, output=0)}
    usage = Usage(input_tokens=MILLION, output_tokens=MILLION)
    assert cost_of("openai:gpt-5", usage, given) == 3
    assert cost_of("ollama:llama3", usage, given) == 0
    assert cost_of("openai:gpt-5-mini", usage, given) == cost_of("openai:gpt-5-mini", usage)
    assert price_of("openai:gpt-5", given) is CHEAP


def test_prices_are_checked_where_they_are_given() -> None:
    assert checked_prices({"m": CHEAP}) == {"m": CHEAP}
    for wrong in ([("m", CHEAP)], {"m": 3}, {3: CHEAP}, None):
        with pytest.raises(ConfigError, match=r"^prices: found .*, wanted"):
            checked_prices(wrong)


def test_plugins_and_models_speak_of_one_price() -> None:
    assert PluginPrice is Price


# --- a report -------------------------------------------------------------------------------------


def test_a_report_knows_its_cost_when_it_knows_every_price() -> None:
    lines = [line("a", input_tokens=MILLION), line("b", output_tokens=MILLION)]
    report = UsageReport.of(lines, {"a": CHEAP, "b": CHEAP})
    assert (report.cost, report.known_cost, report.unpriced) == (Decimal(3), Decimal(3), ())


def test_one_unknown_price_makes_the_cost_unknown_and_leaves_the_known_part() -> None:
    lines = [line("a", input_tokens=MILLION), line("b", output_tokens=1)]
    report = UsageReport.of(lines, {"a": CHEAP})
    assert (report.cost, report.known_cost, report.unpriced) == (None, Decimal(1), ("b",))


def test_a_call_whose_tokens_are_unknown_has_no_cost_of_zero() -> None:
    assert UsageReport.of([line("scripted")]).cost is None


def test_who_used_nothing_has_spent_nothing() -> None:
    assert UsageReport.of([]).cost == 0
    assert UsageReport().cost == 0


def test_a_report_takes_the_price_of_prompts_of_the_usual_length() -> None:
    lines = [line("google:gemini-2.5-pro", calls=4, input_tokens=400_000)]
    assert UsageReport.of(lines).cost == Decimal("0.5")


def _run(code: str) -> str:
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return found.stdout.strip()


async def test_a_runtime_counts_with_the_prices_that_it_was_given() -> None:
    reply = ModelReply(text="hi", usage=Usage(input_tokens=1_000_000, output_tokens=500_000))
    agent = Agent("a", model=ScriptedModel([reply]))
    async with Runtime(agent, store="memory:", prices={"scripted": Price(input=2, output=8)}) as rt:
        result = await rt.session("s").run("hello")
        session, everything = await rt.session("s").usage(), await rt.usage()

    assert result.usage.cost == session.cost == everything.cost == Decimal(6)


def test_a_runtime_names_what_is_no_price() -> None:
    with pytest.raises(ConfigError, match=r"Runtime\.prices"):
        Runtime(store="memory:", prices={"m": 5})  # type: ignore[dict-item]  # that is the point
