import unittest

from pages import page_count


class Pages(unittest.TestCase):
    def test_nothing_needs_no_page(self) -> None:
        self.assertEqual(page_count(0, 10), 0)

    def test_the_last_page_may_be_short(self) -> None:
        self.assertEqual(page_count(11, 10), 2)

    def test_a_full_page_is_one_page(self) -> None:
        self.assertEqual(page_count(20, 10), 2)
