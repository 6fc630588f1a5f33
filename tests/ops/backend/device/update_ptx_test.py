"""Checks in the PTX of update.cu how the kernels access memory.

usage: update_ptx_test.py FILE
  FILE   update.cu, compiled to PTX
"""
import functools
import itertools
import re
import subprocess
import sys
import unittest

# Accesses of a word of 16 bytes (v4) or of half a word (v2), with the offset from the address of the thread's elements.
WIDE = re.compile(r"\b(ld|st)\.global\.c[ags]\.(v4|v2)\.u32\s[^;]*\[%rd\d+(\+-?\d+)?\][^;]*;")
# The name of a kernel without namespaces: rule, type of gradients, type of copies, size of the arguments with the table.
NAME = re.compile(r"Update<(\w+)(?:<\(Momentum\)(\d)>)?, (\w+), (\w+), TensorTable<UpdateEntry<\d>, (\d+)ul> >")


def demangled(name):
    text = subprocess.run(["c++filt", name], capture_output=True, text=True, check=True).stdout
    return re.sub(r"(\w+|\(anonymous namespace\))::", "", text)


class Kernel:
    """A kernel Update<Rule, Gradient, Copy, Table>."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        rule, momentum, gradient, copy, arguments = NAME.search(demangled(name)).groups()
        self.states = 2 if "AdamW" in rule else int(momentum != "0")
        self.gradient = "v4" if gradient == "float" else "v2"
        self.has_copy = copy != "NoCopy"
        self.arguments = int(arguments)

    def accesses(self, kind):
        """[(width, offset), ...] of all loads or all stores, in the order of the code."""
        return [(width, offset) for one, width, offset in WIDE.findall(self.text) if one == kind]


@functools.cache
def kernels():
    with open(sys.argv[1], encoding="utf-8") as file:
        parts = re.split(r"(?m)^(?=[.\w ]*\.entry)", file.read())[1:]
    named = [(re.search(r"\.entry (\w+)", part).group(1), part) for part in parts]
    return [Kernel(name, part) for name, part in named if "6UpdateI" in name]


class UpdatePtx(unittest.TestCase):
    def test_every_kernel_is_found(self):
        # 5 rules, 3 types of gradients, 3 of copies, 2 sizes of a table
        self.assertEqual(len(kernels()), 5 * 3 * 3 * 2)
        counts = {key: len(list(group)) for key, group in
                  itertools.groupby(sorted((kernel.states, kernel.has_copy, kernel.gradient) for kernel in kernels()))}
        rules = {0: 1, 1: 2, 2: 2}
        self.assertEqual(counts, {(states, has_copy, gradient): rules[states] * 2 * (2 if has_copy else 1) * (2 if gradient == "v2" else 1)
                                  for states in rules for has_copy in (False, True) for gradient in ("v2", "v4")})

    def test_adjacent_threads_access_adjacent_words(self):
        # A thread accesses 4 elements of each array: one word of float32, or half a word of a narrower type. If it accessed
        # two words of an array, the second would be at an offset, and the words of adjacent threads would be 32 bytes apart.
        for kernel in kernels():
            with self.subTest(kernel.name):
                word = ("v4", "")
                self.assertEqual(sorted(kernel.accesses("ld")), sorted([(kernel.gradient, "")] + [word] * (1 + kernel.states)))
                self.assertEqual(sorted(kernel.accesses("st")), sorted([("v2", "")] * kernel.has_copy + [word] * (1 + kernel.states)))

    def test_arguments_of_a_short_table_have_at_most_4_kb(self):
        for kernel in kernels():
            with self.subTest(kernel.name):
                head = kernel.text[:kernel.text.index("{")]
                used = sum(int(size) for size in re.findall(r"\.b8 \w+\[(\d+)\]", head))
                self.assertLessEqual(used, kernel.arguments)
                self.assertGreater(used, kernel.arguments - 512)

    def test_no_kernel_spills_arrays_to_local_memory(self):
        for kernel in kernels():
            with self.subTest(kernel.name):
                self.assertNotRegex(kernel.text, r"\b(ld|st)\.local")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
