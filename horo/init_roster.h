#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "horo/base/file_descriptor.h"

namespace horo {

/// The ranks of one job on this host that wait in init(). Each one locks a range of bytes of
/// /dev/null, by which the others find it before MPI connects them, whatever their network
/// namespaces. The kernel removes the lock when the process ends, however it ends. Used by one
/// thread.
class InitRoster {
 public:
  struct Waiting {
    int rank = 0;
    pid_t pid = 0;
    bool is_stopped = false;
  };

  /// Enters this rank. `job`: the same on all ranks of a job on this host, unique on the host.
  /// Without the lock, as where the system refuses it, the rank finds the others and they do not
  /// find it.
  InitRoster(std::string_view job, int rank, int size);

  /// In ascending order, this rank included. Does not block.
  std::vector<Waiting> waiting() const;
  /// Whether this rank writes the lines for the host. The first rank that calls this does, until it
  /// ends; while it is stopped, one other rank does. Does not block.
  bool is_reporter();

 private:
  // A range of bytes that one process at a time holds. Ranks have the ranges from 0 on.
  std::int64_t range_of_role(int role) const;
  FileDescriptor hold(int role) const;
  std::optional<Waiting> find(int role) const;

  const std::uint64_t job_;
  const int rank_, size_;
  FileDescriptor own_, reporter_, deputy_;
};

}  // namespace horo
