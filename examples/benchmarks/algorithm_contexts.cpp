#include "examples/benchmarks/algorithm_contexts.h"

#include <mpi.h>

#include <cstdlib>

#include "horo/mpi.h"

namespace horo::bench {
namespace {

constexpr const char* kVariable = "HORO_ALGORITHM";

// A variable of the environment that gets its old value back.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

AlgorithmContexts::AlgorithmContexts(Context& first, const std::vector<std::string>& algorithms)
    : first_(first) {
  if (algorithms.empty()) names_ = {"horo"};
  for (const std::string& algorithm : algorithms) {
    // A context reads its settings when it is made, and no other thread reads the environment.
    const ScopedVariable setting(kVariable, algorithm);
    contexts_.push_back(init(MPI_COMM_WORLD));
    names_.push_back("horo_" + algorithm);
  }
}

}  // namespace horo::bench
