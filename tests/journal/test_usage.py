"""Usage lines: one per source and model, in their order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.journal import UsageLine
from windlass.journal.usage import sum_usage
from windlass.kernel import Usage, canonical


def line(source: str, model: str, tokens: int, lost: int = 0) -> UsageLine:
    return UsageLine(
        source=source, model=model, calls=1, lost=lost, usage=Usage(input_tokens=tokens)
    )


def test_lines_of_one_source_and_model_are_added() -> None:
    assert line("turn", "m", 3, lost=1).plus(line("turn", "m", 4)) == UsageLine(
        source="turn", model="m", calls=2, lost=1, usage=Usage(input_tokens=7)
    )


def test_nothing_adds_up_to_nothing() -> None:
    assert sum_usage([]) == ()


def test_lines_come_in_the_order_of_source_and_model() -> None:
    lines = [line("b", "x", 1), line("a", "y", 1), line("a", "x", 1), line("b", "x", 1)]
    assert [(each.source, each.model, each.calls) for each in sum_usage(lines)] == [
        ("a", "x", 1),
        ("a", "y", 1),
        ("b", "x", 2),
    ]


lines = st.builds(
    line, st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 2**62), st.integers(0, 1)
)


@given(st.lists(lines), st.randoms(use_true_random=False))
def test_a_sum_does_not_depend_on_the_order(given_lines: list[UsageLine], dice: object) -> None:
    shuffled = list(given_lines)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]  # random.Random
    total = sum_usage(given_lines)
    assert total == sum_usage(shuffled) == sum_usage(total)
    assert sum(each.calls for each in total) == len(given_lines)
    assert sum(each.usage.input_tokens for each in total) == sum(
        each.usage.input_tokens for each in given_lines
    )


def test_a_line_without_usage_leaves_it_out() -> None:
    written = canonical.encode(UsageLine(source="turn", model="m", usage=Usage()))
    assert written == b'{"model":"m","source":"turn","type":"usage_line"}'
