#pragma once

#include <cstdint>

namespace horo {

/// The process in which it was made: fork() leaves a child with the memory of objects whose threads
/// and connections stay with the parent. Copies keep the home of the original. Thread-safe.
class HomeProcess {
 public:
  HomeProcess();
  /// Whether this is a child that fork() made later. Costs one relaxed load.
  bool is_elsewhere() const noexcept;
  /// Throws ShutdownError if is_elsewhere().
  void require_home() const;

 private:
  std::uint32_t forks_;
};

}  // namespace horo
