#pragma once

#include <cstddef>
#include <span>

namespace horo::collectives {

/// Zero-initialised memory, aligned to a page, that all ranks of a node have mapped, each perhaps
/// at another address. Released by the destructor of the last rank; nothing is left behind when a
/// process dies.
class SharedRegion {
 public:
  virtual ~SharedRegion() = default;
  virtual std::span<std::byte> bytes() = 0;
};

}  // namespace horo::collectives
