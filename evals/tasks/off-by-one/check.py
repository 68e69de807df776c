from pages import page_count

assert [page_count(n, 3) for n in range(8)] == [0, 1, 1, 1, 2, 2, 2, 3]
