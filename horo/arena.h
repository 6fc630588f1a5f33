#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>

namespace horo {

/// Memory that all ranks of a node have mapped, made by Context::allocate().
///
/// If the gradients of a bucket lie in arenas on every rank, a GradientSync reduces them in place;
/// GradientSync::is_in_place() describes the exceptions. Each rank reduces its share of the bucket
/// over the ranks of its node and exchanges the result with the other nodes. The rank then writes
/// the result to the arenas of all ranks of its node. Only data that is sent between nodes is
/// staged.
///
/// An arena is ordinary memory, without this effect, if HORO_ALGORITHM is ring, parameter_server or
/// mpi. The same holds if every node has one rank, unless HORO_ALGORITHM is hierarchical.
///
/// Move-only. The memory is released when the Arena and all GradientSyncs whose tensors lie in it
/// have been destroyed. A killed process leaves no shared memory behind. An Arena must be used by
/// one thread at a time.
class Arena {
 public:
  Arena(Arena&&) noexcept;
  Arena& operator=(Arena&&) noexcept;
  ~Arena();

  /// The memory of this rank. It is initially zero, aligned to 4 KiB, and at least as large as
  /// requested.
  std::span<std::byte> bytes() const;

  /// A memory resource for std::pmr containers that allocates from bytes(), from front to back, in
  /// units of 64 bytes. Deallocation does not make memory available again. allocate() throws
  /// InvalidArgument if the remaining memory is too small, or if the alignment is above 4 KiB. The
  /// Arena owns the resource. The pointer is valid until the Arena is destroyed. It remains valid
  /// if the Arena is moved: the new Arena object then owns the resource.
  std::pmr::memory_resource* resource() const;

 private:
  friend class Context;
  class Impl;
  explicit Arena(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
