#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "horo/handle.h"

namespace horo {

/// The result to come of an alltoall: a Handle that also knows how many rows each rank has sent
/// here.
class [[nodiscard]] AlltoallHandle : public Handle {
 public:
  AlltoallHandle() = default;
  AlltoallHandle(Handle handle, std::shared_ptr<const std::vector<std::size_t>> received_splits);

  /// How many rows of the output came from each rank, by rank. Blocks and throws as wait().
  std::vector<std::size_t> received_splits() const;

 private:
  std::shared_ptr<const std::vector<std::size_t>> received_splits_ =
      std::make_shared<const std::vector<std::size_t>>();
};

}  // namespace horo
