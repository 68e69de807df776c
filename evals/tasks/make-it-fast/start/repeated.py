"""Find what is there more than once."""


def repeated(items: list[str]) -> list[str]:
    """Return the items that are there more than once, in the order in which each appears first."""
    found: list[str] = []
    for item in items:
        if items.count(item) > 1 and item not in found:
            found.append(item)
    return found
