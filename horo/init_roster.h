#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "horo/base/file_descriptor.h"

namespace horo {

/// The ranks of one job on this host that wait in init(). Each one listens on an abstract Unix
/// socket whose name holds the job and the rank, so that the others find it before MPI connects
/// them. The kernel removes the name when the process ends, however it ends. Used by one thread.
class InitRoster {
 public:
  struct Waiting {
    int rank = 0;
    pid_t pid = 0;  ///< 0: unknown
    bool is_stopped = false;
  };

  /// Enters this rank. `job`: the same on all ranks of a job, unique on the host. Without the
  /// socket, as where the name is taken, the rank finds the others and they do not find it.
  InitRoster(std::string_view job, int rank, int size);

  /// In ascending order, this rank included. Makes one connection to each rank; does not block.
  std::vector<Waiting> waiting();
  /// Whether this rank writes the lines for the host. The first rank that calls this does, until it
  /// ends; while it is stopped, one other rank does. Does not block.
  bool is_reporter();

 private:
  // The process that listens on a name. None: no process does.
  struct Listener {
    pid_t pid = 0;
    bool is_stopped = false;
  };
  FileDescriptor listen_on(std::string_view role) const;
  std::optional<Listener> find(std::string_view role) const;

  const std::string name_;
  const int rank_, size_;
  FileDescriptor own_, reporter_, deputy_;
};

}  // namespace horo
