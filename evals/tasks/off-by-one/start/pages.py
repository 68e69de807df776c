"""How many pages a list fills."""


def page_count(total: int, size: int) -> int:
    """Return how many pages of `size` items are needed for `total` items."""
    if total == 0:
        return 0
    return total // size + 1
