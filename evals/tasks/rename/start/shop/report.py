"""What the accountant reads."""

from shop import price


def line(name: str, gross: int) -> str:
    return f"{name}: {price.calc(gross, 7)} (calculated)"
