from repeated import repeated


class Counted(str):
    """A text that counts how often it is compared: a clock would measure the machine."""

    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


assert repeated([]) == []
assert repeated(list("abcab")) == ["a", "b"]
assert repeated(list("cbabc")) == ["c", "b"]
items = [Counted(n % 800) for n in range(1_000)]
found = repeated(items)
assert found == [str(n) for n in range(200)]
most = 20 * len(items)
assert Counted.compared <= most, f"{Counted.compared:,} comparisons of {len(items):,} items, wanted at most {most:,}"
