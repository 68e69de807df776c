import time

from repeated import repeated


class Counted(str):
    """A text that counts how often it is compared."""

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


def cpu_s(n):
    items = [str(at % (n * 4 // 5)) for at in range(n)]
    began = time.process_time()
    repeated(items)
    return time.process_time() - began


# Comparisons of anything else, such as hashes, are not counted: how the time grows shows them, on any machine.
grown = min(cpu_s(8_000) for _ in range(3)) / min(cpu_s(200) for _ in range(9))
assert grown <= 300, f"40 times as many items take {grown:,.0f} times as long, wanted at most 300"
