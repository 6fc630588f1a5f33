#pragma once

#include <fcntl.h>
#include <sched.h>

#include "horo/base/file_descriptor.h"

namespace horo {

/// While it lives, the sockets that the calling thread makes are in a network namespace of their
/// own. Needs root: is_there() says whether it could be had.
class PrivateNetwork {
 public:
  PrivateNetwork()
      : before_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)),
        is_there_(before_.is_open() && unshare(CLONE_NEWNET) == 0) {}
  ~PrivateNetwork() {
    if (is_there_) setns(before_.get(), CLONE_NEWNET);
  }
  PrivateNetwork(const PrivateNetwork&) = delete;
  PrivateNetwork& operator=(const PrivateNetwork&) = delete;

  bool is_there() const { return is_there_; }

 private:
  FileDescriptor before_;
  bool is_there_;
};

}  // namespace horo
