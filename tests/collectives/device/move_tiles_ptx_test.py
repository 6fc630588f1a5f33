"""Checks in the PTX of move_tiles.cu how the kernels access memory.

usage: move_tiles_ptx_test.py FILE
  FILE   move_tiles.cu, compiled to PTX
"""
import re
import sys
import unittest

# The number of words that a thread loads before it stores the first, by the size of the larger type in bytes.
WORDS = {1: 2, 2: 4, 4: 8, 8: 8}
# Mangled names of element types.
SIZES = {"a": 1, "b": 1, "h": 1, "s": 2, "t": 2, "i": 4, "f": 4, "l": 8, "d": 8}
# Accesses of a whole word of 16 bytes or of half a word.
WIDE = re.compile(r"\b(ld|st)\.global\.c[sg]\.(v4|v2)\.u32 ")


class Kernel:
    def __init__(self, name, text):
        self.name = name
        self.text = text
        self.is_mixed = "MoveTilesIfNS_" in name
        plain = re.search(r"(?:MoveTiles|Scale)I([abhstifld])", name)
        self.size = 4 if self.is_mixed else SIZES[plain.group(1)] if plain else 2
        self.is_unpack = "DirectionE1" in name

    def accesses(self):
        """[("ld", "v4"), ...] in the order of the code."""
        return WIDE.findall(self.text)

    def runs(self, kind):
        """The lengths of runs of accesses of this kind without one of the other kind between."""
        text = "".join("L" if access == "ld" else "S" for access, _ in self.accesses())
        return [len(run) for run in re.findall("L+" if kind == "ld" else "S+", text)]


def kernels():
    with open(sys.argv[1], encoding="utf-8") as file:
        parts = re.split(r"(?m)^(?=[.\w ]*\.entry)", file.read())[1:]
    return [Kernel(re.search(r"\.entry (\w+)", part).group(1), part) for part in parts]


class MoveTilesPtx(unittest.TestCase):
    def test_every_kernel_is_found(self):
        found = kernels()
        self.assertEqual(sum("MoveTiles" in kernel.name for kernel in found), 2 * 13)
        self.assertEqual(sum("Scale" in kernel.name for kernel in found), 11)

    def test_threads_load_several_words_before_they_store(self):
        for kernel in kernels():
            with self.subTest(kernel.name):
                self.assertGreaterEqual(len(kernel.runs("ld")), 1)
                for kind in ("ld", "st"):
                    self.assertGreaterEqual(min(kernel.runs(kind)), WORDS[kernel.size])

    def test_larger_type_is_accessed_in_words_of_16_bytes(self):
        for kernel in kernels():
            with self.subTest(kernel.name):
                wide = {access: {width for kind, width in kernel.accesses() if kind == access} for access in ("ld", "st")}
                narrow = {"v2"} if kernel.is_mixed else {"v4"}
                self.assertEqual(wide["ld"], narrow if kernel.is_unpack else {"v4"})
                self.assertEqual(wide["st"], {"v4"} if kernel.is_unpack else narrow)

    def test_no_kernel_spills_arrays_to_local_memory(self):
        for kernel in kernels():
            with self.subTest(kernel.name):
                self.assertNotRegex(kernel.text, r"\b(ld|st)\.local")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
