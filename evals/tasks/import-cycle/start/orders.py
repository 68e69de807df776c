"""Orders."""

from customers import Customer


class Order:
    def __init__(self, customer: Customer, cents: int) -> None:
        self.customer = customer
        self.cents = cents


def order_for(name: str, cents: int) -> Order:
    return Order(Customer(name), cents)
