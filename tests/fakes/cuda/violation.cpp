#include "tests/fakes/cuda/violation.h"

#include <cstdio>
#include <cstdlib>

namespace horo::fakes {
namespace {

thread_local bool is_in_host_function = false;  // NOLINT

}  // namespace

void violation(const std::string& call, const std::string& place, const std::string& rule) {
  std::fprintf(stderr, "\nfake CUDA: %s on %s: %s\n", call.c_str(), place.c_str(), rule.c_str());
  std::fflush(nullptr);
  std::abort();
}

InHostFunction::InHostFunction() { is_in_host_function = true; }
InHostFunction::~InHostFunction() { is_in_host_function = false; }

void enter(const char* call) {
  if (is_in_host_function)
    violation(call, "the thread of a host function",
              "a function of cudaLaunchHostFunc must not call CUDA or NCCL");
}

}  // namespace horo::fakes
