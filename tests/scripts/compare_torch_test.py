#!/usr/bin/env python3
"""Tests the figures of scripts/compare_torch.py.

usage: compare_torch_test.py SCRIPTS_FOLDER
"""
import sys
import unittest

sys.path.insert(0, sys.argv[1])
import compare_torch  # noqa: E402

ROUNDS = [
    {"horo alone": [60, 61, 90], "horo distributed": [71, 70, 75], "torch alone": [60, 60, 60],
     "torch DDP": [100, 90, 95]},
    {"horo alone": [60, 60, 60], "horo distributed": [64, 64, 64], "torch alone": [50, 50, 50],
     "torch DDP": [83, 83, 83]},
    {"horo alone": [60, 60, 60], "horo distributed": [72, 72, 72], "torch alone": [50, 50, 50],
     "torch DDP": [110, 110, 110]},
]


class Figures(unittest.TestCase):
    def test_steps_are_read_from_lines_of_json(self):
        output = 'a warning\n{"way": "alone", "milliseconds": [1.5, 2.0]}\n'
        self.assertEqual(compare_torch.steps_of(output), {"alone": [1.5, 2.0]})

    def test_exposed_communication_is_the_difference_of_medians_per_round(self):
        self.assertEqual(compare_torch.exposed(ROUNDS), {"horo distributed": [10, 4, 12], "torch DDP": [35, 33, 60]})

    def test_goal_compares_the_medians_over_the_rounds(self):
        for goal, expected in ((3, True), (4, False)):
            is_met, sentence = compare_torch.verdict(ROUNDS, goal)
            self.assertEqual(is_met, expected)
            self.assertIn("horo 10.0 ms, DDP 35.0 ms", sentence)
            self.assertIn("is met" if expected else "is not met", sentence)

    def test_table_has_median_and_spread(self):
        self.assertIn("| torch DDP | 95.0 (83.0 to 110.0) | 35.0 (33.0 to 60.0) |", compare_torch.table(ROUNDS))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
