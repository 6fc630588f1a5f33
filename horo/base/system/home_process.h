#pragma once

#include <cstdint>

namespace horo {

/// Identifies the process in which an object was made. A child process of fork() has a copy of the
/// object, but not of its threads and connections, and must not use it. A copy of a HomeProcess
/// identifies the same process as the original. Thread-safe.
class HomeProcess {
 public:
  HomeProcess();
  /// Whether this process is a child that fork() made later. Costs one relaxed load.
  bool is_elsewhere() const noexcept;
  /// Throws ShutdownError if is_elsewhere().
  void require_home() const;

 private:
  std::uint32_t forks_;
};

}  // namespace horo
