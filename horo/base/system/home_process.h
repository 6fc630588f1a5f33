#pragma once

#include <cstdint>

namespace horo {

/// A member that identifies the process in which its object was made. A child process of fork() has
/// a copy of the object, but not the threads of the object, so the child must not use the object. A
/// copy of a HomeProcess identifies the same process as the original. Thread-safe.
class HomeProcess {
 public:
  HomeProcess();
  /// Whether this process is a child, or a descendant, that fork() made after the construction.
  /// Costs one relaxed load.
  bool is_elsewhere() const noexcept;
  /// Throws ShutdownError if is_elsewhere().
  void require_home() const;

 private:
  std::uint32_t forks_;
};

}  // namespace horo
