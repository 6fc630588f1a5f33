#!/usr/bin/env python3
"""Checks that the compiler rejects wrong calls of horo's API with a text that explains the error.

usage: does_not_compile_test.py COMPILER INCLUDE_DIRECTORIES
INCLUDE_DIRECTORIES: the include directories of horo and its dependencies, separated by ":".
"""
import subprocess
import sys
import unittest

COMPILER = sys.argv[1]
INCLUDES = [f"-I{directory}" for directory in sys.argv[2].split(":") if directory]

HEAD = """#include <horo/context.h>
#include <complex>
void call(horo::Context& ctx, std::vector<float>& x, const std::vector<float>& fixed) {
  int n = 3;
  (void)n, (void)x, (void)fixed, (void)ctx;
  """
TYPES = "the element type must be float, double"
TEMPORARY = "a view does not keep a temporary alive"


def compile_call(call, standard="c++20"):
    """Returns the exit code and the output of the compiler."""
    run = subprocess.run([COMPILER, f"-std={standard}", "-fsyntax-only", *INCLUDES, "-x", "c++", "-"],
                         input=HEAD + call + "\n}\n", capture_output=True, text=True, timeout=120,
                         env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    return run.returncode, run.stderr


class DoesNotCompile(unittest.TestCase):
    def assert_refused(self, call, text, **options):
        code, output = compile_call(call, **options)
        self.assertNotEqual(code, 0, call)
        self.assertIn(text, output, call)

    def test_valid_calls_compile(self):
        code, output = compile_call("""
          ctx.allreduce(x, {.op = horo::ReduceOp::kSum});
          ctx.allreduce(fixed, x);
          ctx.allgather(std::span<const float>(fixed), horo::TensorView(x.data(), {n, 2L * n}));
          std::vector<horo::NamedTensor> tensors = {{"w", x}, {"part", {x.data(), {n}}}};
          ctx.check_equal(tensors, {.name = "w", .every = 10});""")
        self.assertEqual(code, 0, output)

    def test_temporaries(self):
        self.assert_refused("(void)ctx.allreduce_async(std::vector<float>(3));", TEMPORARY)
        self.assert_refused('horo::NamedTensor{"w", std::vector<float>(10)};', TEMPORARY)
        self.assert_refused("horo::TensorView view(std::vector<float>(3)); (void)view;", TEMPORARY)
        self.assert_refused("(void)ctx.allgather_async(std::vector<float>(3), x);", TEMPORARY)

    def test_element_types(self):
        self.assert_refused("std::vector<long double> y(3); ctx.allreduce(y);", TYPES)
        self.assert_refused("std::vector<std::string> y(3); ctx.allreduce(y);", TYPES)
        self.assert_refused("std::complex<float>* y = nullptr; ctx.allreduce({y, {n}});", TYPES)

    def test_const_memory(self):
        self.assert_refused("ctx.allreduce(fixed);", "const std::vector<float>")
        self.assert_refused("ctx.allreduce(x, fixed);", "const std::vector<float>")

    def test_older_standards(self):
        self.assert_refused("", "horo needs C++20", standard="c++17")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
