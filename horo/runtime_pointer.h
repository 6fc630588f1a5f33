#pragma once

#include <exception>
#include <memory>
#include <utility>

namespace horo {

class Runtime;

/// The pointer of a Context to its runtime. Access throws an error in a child process of fork(),
/// and if there is no runtime. There is no runtime if the Context was moved from, if its process
/// set is closed, or if this rank is not a member of its process set. Several threads may read the
/// pointer at the same time, but not while another thread assigns, moves or releases it.
class RuntimePointer {
 public:
  RuntimePointer() = default;
  /// A pointer to `runtime`.
  explicit RuntimePointer(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  /// A pointer without a runtime: every access throws `why`.
  explicit RuntimePointer(std::exception_ptr why) : why_(std::move(why)) {}
  /// Leaves the other pointer without a runtime.
  RuntimePointer(RuntimePointer&&) noexcept = default;
  /// Exchanges the two pointers.
  RuntimePointer& operator=(RuntimePointer&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(why_, other.why_);
    return *this;
  }

  /// Throws as get() does.
  Runtime* operator->() const { return get().get(); }
  /// Returns the runtime. Throws ShutdownError in a child process of fork() and if the pointer was
  /// moved from. Throws the given error `why` if the pointer was made or released with one.
  const std::shared_ptr<Runtime>& get() const;
  /// Whether there is a runtime. Does not throw.
  explicit operator bool() const noexcept { return runtime_ != nullptr; }
  /// Whether this process is a fork() child of the process that made the runtime. Does not throw.
  bool is_elsewhere() const noexcept;
  /// Removes and returns the runtime, or returns null if there is none. Later accesses throw `why`.
  std::shared_ptr<Runtime> release(std::exception_ptr why) {
    why_ = std::move(why);
    return std::exchange(runtime_, nullptr);
  }

 private:
  std::shared_ptr<Runtime> runtime_;
  std::exception_ptr why_;
};

}  // namespace horo
