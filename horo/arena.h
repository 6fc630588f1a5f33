#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>

namespace horo {

/// This rank's part of a block of memory that all ranks of a context on one node have mapped. Made
/// by Context::allocate().
///
/// If the gradients of a bucket lie in arenas on every rank, a GradientSync of the same context
/// reduces them in place; GradientSync::is_in_place() describes the exceptions. Each rank reduces
/// its share of the bucket over the ranks of its node and exchanges the result with the other
/// nodes. The rank then writes the result to the arenas of all ranks of its node. Only data that is
/// sent between nodes is staged.
///
/// An arena is ordinary memory, without this effect, if HORO_ALGORITHM is ring, parameter_server or
/// mpi. The same holds for several nodes with one rank each, unless HORO_ALGORITHM is hierarchical.
///
/// Move-only. The memory stays valid until the Arena and all GradientSyncs that reduce gradients in
/// place in it have been destroyed. All other use of the memory must end before the Arena is
/// destroyed. A killed process leaves no shared memory behind. An Arena must be used by one thread
/// at a time.
class Arena {
 public:
  /// The memory keeps its address. The other object must then only be assigned or destroyed.
  Arena(Arena&&) noexcept;
  /// Releases the memory of this object first.
  Arena& operator=(Arena&&) noexcept;
  ~Arena();

  /// The memory of this rank. It is initially zero, aligned to 4 KiB, and at least as large as
  /// requested.
  std::span<std::byte> bytes() const;

  /// A memory resource for std::pmr containers that allocates from bytes(), from front to back.
  /// Allocations begin at multiples of 64 bytes. Deallocation does not make memory available again.
  /// allocate() throws InvalidArgument if the remaining memory is too small, or if the alignment is
  /// above 4 KiB. The Arena owns the resource. The pointer is valid until the Arena is destroyed.
  /// It remains valid if the Arena is moved: the new Arena object then owns the resource.
  std::pmr::memory_resource* resource() const;

 private:
  friend class Context;
  class Impl;
  explicit Arena(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
