import subprocess
import sys

for first in ("orders", "customers"):
    program = (
        f"import {first}, orders, customers;"
        "assert customers.label(orders.order_for('Ada', 5)) == 'Ada: 5';"
        "assert orders.order_for.__module__ == 'orders' and customers.label.__module__ == 'customers'"
    )
    subprocess.run([sys.executable, "-B", "-c", program], check=True)
