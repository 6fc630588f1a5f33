#pragma once

#include <exception>
#include <memory>
#include <utility>

namespace horo {

class Runtime;

/// How a Context reaches its runtime: a pointer that throws where there is none (it was moved from,
/// its process set is closed or without this rank) and in a child process of fork(). Not for use by
/// several threads while it is assigned.
class RuntimePointer {
 public:
  RuntimePointer() = default;
  explicit RuntimePointer(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  /// No runtime: every use throws `why`.
  explicit RuntimePointer(std::exception_ptr why) : why_(std::move(why)) {}
  RuntimePointer(RuntimePointer&&) noexcept = default;
  RuntimePointer& operator=(RuntimePointer&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(why_, other.why_);
    return *this;
  }

  Runtime* operator->() const { return get().get(); }
  const std::shared_ptr<Runtime>& get() const;
  /// Whether there is one; does not throw.
  explicit operator bool() const noexcept { return runtime_ != nullptr; }
  /// Whether this process is not the one that made the runtime; does not throw.
  bool is_elsewhere() const noexcept;
  /// Gives the runtime away, if there is one; later uses throw `why`.
  std::shared_ptr<Runtime> release(std::exception_ptr why) {
    why_ = std::move(why);
    return std::exchange(runtime_, nullptr);
  }

 private:
  std::shared_ptr<Runtime> runtime_;
  std::exception_ptr why_;
};

}  // namespace horo
