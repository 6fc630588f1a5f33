#include "horo/alltoall_handle.h"

#include <utility>

namespace horo {

AlltoallHandle::AlltoallHandle(Handle handle,
                               std::shared_ptr<const std::vector<std::size_t>> received_splits)
    : Handle(std::move(handle)), received_splits_(std::move(received_splits)) {}

std::vector<std::size_t> AlltoallHandle::received_splits() const {
  wait();
  return *received_splits_;
}

}  // namespace horo
