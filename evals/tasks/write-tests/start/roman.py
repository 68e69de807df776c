"""Roman numerals."""

_SIGNS = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
    (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)


def roman(number: int) -> str:
    """Return a number from 1 on as a Roman numeral."""
    if number < 1:
        raise ValueError(f"number: found {number}, wanted 1 or more")
    text = ""
    for value, sign in _SIGNS:
        text += sign * (number // value)
        number %= value
    return text
