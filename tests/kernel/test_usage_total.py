"""What several calls used, added up at once."""

from __future__ import annotations

from windlass.kernel import Usage


def test_the_total_adds_up_each_count() -> None:
    first = Usage(input_tokens=1, output_tokens=2, cached_input_tokens=3)
    second = Usage(output_tokens=10, cache_write_tokens=20, reasoning_tokens=30)
    assert (
        Usage.total([first, second])
        == first + second
        == Usage(
            input_tokens=1,
            output_tokens=12,
            cached_input_tokens=3,
            cache_write_tokens=20,
            reasoning_tokens=30,
        )
    )


def test_the_total_of_one_is_that_one_and_of_none_is_nothing() -> None:
    used = Usage(input_tokens=5, reasoning_tokens=1)
    assert Usage.total([used]) == used
    assert Usage.total([]) == Usage()
