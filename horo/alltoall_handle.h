#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "horo/handle.h"

namespace horo {

/// The future result of an alltoall: a Handle that also returns the number of rows received from
/// each rank.
class [[nodiscard]] AlltoallHandle : public Handle {
 public:
  AlltoallHandle() = default;
  /// For use inside horo.
  AlltoallHandle(Handle handle, std::shared_ptr<const std::vector<std::size_t>> received_splits);

  /// Returns the number of rows received from each rank, by rank. Blocks until they are known: for
  /// tensors in host memory until the operation has completed, for tensors in device memory until
  /// it is enqueued on the device. Throws as wait() does.
  std::vector<std::size_t> received_splits() const;

 private:
  std::shared_ptr<const std::vector<std::size_t>> received_splits_ =
      std::make_shared<const std::vector<std::size_t>>();
};

}  // namespace horo
