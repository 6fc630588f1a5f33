#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/compression.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/coordinator/negotiation/request.h"

namespace horo::plan {

/// Returns the description that ranks compare before they use a plan. It has one request per
/// gradient. Requests of kind kTask follow: one for the settings, one for each of `options`, and
/// one for each option of the compression. `options` must have the same length on all ranks. Pure.
std::vector<coordinator::Request> describe_plan(std::span<const NamedTensor> gradients, ReduceOp op,
                                                std::size_t bucket_bytes,
                                                std::optional<DataType> wire,
                                                const Compression& compression,
                                                std::span<const std::string> options = {});

/// Returns a text about the first difference between the description of rank 0 and that of another
/// rank (descriptions[r]). The text contains the plan, the gradient or the settings that differ,
/// both ranks (rank_names[r]) and both values. Empty if all are equal. Pure.
std::string find_plan_mismatch(const std::string& plan_name,
                               std::span<const std::vector<coordinator::Request>> descriptions,
                               std::span<const std::string> rank_names);

/// Compares `description` on all ranks. Collective; costs one allreduce of 16 bytes if the
/// descriptions are equal. If they differ, the ranks gather the descriptions, and every rank throws
/// MismatchError with the text of find_plan_mismatch().
void agree_on_plan(const std::string& plan_name, std::span<const coordinator::Request> description,
                   collectives::Collectives& collectives, const Topology& topology);

/// Numbers the plans that exist at the same time under one name, in a job or a process set. Any
/// thread may call release(). agree() is collective, so all ranks must call it in the same order,
/// one call at a time.
class PlanNames {
 public:
  /// Returns a number for a new plan called `name`, equal on all ranks: 1 if no rank has a plan of
  /// this name, otherwise the largest number that a rank has in use plus 1. The number is in use
  /// until release(). Collective; costs one allreduce of 8 bytes.
  int agree(const std::string& name, collectives::Collectives& collectives);
  void release(const std::string& name, int number);

 private:
  std::mutex mutex_;  // guards taken_
  std::map<std::string, std::set<int>> taken_;
};

/// Returns "net" for number 1 and "net#2" for number 2.
std::string numbered_name(const std::string& name, int number);

}  // namespace horo::plan
