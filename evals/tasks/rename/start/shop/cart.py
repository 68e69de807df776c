"""What a customer wants to buy."""

from shop.price import calc


def total(prices: list[int]) -> int:
    return sum(calc(price, 19) for price in prices)
