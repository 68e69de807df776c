"""Customers."""

from orders import Order


class Customer:
    def __init__(self, name: str) -> None:
        self.name = name


def label(order: Order) -> str:
    return f"{order.customer.name}: {order.cents}"
