from shop import cart, price, report

assert not hasattr(price, "calc")
assert price.net_price(119, 19) == 100
assert cart.total([119, 238]) == 300
assert report.line("tea", 107) == "tea: 100 (calculated)"
