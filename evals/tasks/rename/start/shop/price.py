"""Prices."""


def calc(gross: int, percent: int) -> int:
    return gross * 100 // (100 + percent)
