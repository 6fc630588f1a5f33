#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>

namespace horo {

/// Memory that all ranks of a node have mapped, made by Context::allocate(). Gradients that lie in
/// an arena on every rank are exchanged in place: each rank combines its share of the gradients of
/// all ranks of its node, takes it round the other nodes, if there are any, and writes the result
/// to all of them, with nothing staged in between but what is on the wire. (Where every node has
/// one rank, unless HORO_ALGORITHM is hierarchical, and where it is ring, parameter_server or mpi,
/// an arena is memory like any other.)
///
/// Moved, not copied. The memory is released when the Arena and every GradientSync that was given
/// tensors in it are gone; nothing is left behind when a process is killed. Used by one thread at a
/// time.
class Arena {
 public:
  Arena(Arena&&) noexcept;
  Arena& operator=(Arena&&) noexcept;
  ~Arena();

  /// This rank's memory: zeros at first, aligned to 4 KiB, at least as large as was asked for.
  std::span<std::byte> bytes() const;

  /// Deals the same memory out from front to back, to std::pmr containers or by allocate(); in
  /// units of 64 bytes. Memory given back is not dealt again. Throws InvalidArgument when it is
  /// used up. Valid while the Arena lives; moving the Arena does not move it.
  std::pmr::memory_resource* resource() const;

 private:
  friend class Context;
  class Impl;
  explicit Arena(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
