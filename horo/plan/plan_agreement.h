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
/// gradient. Requests of kind kTask follow: one for the operation, `bucket_bytes` and `wire`, one
/// for each of `options`, and one for each option of the compression. If the lengths of `options`
/// differ between two ranks, the ranks must differ in an earlier element that both have. Pure.
std::vector<coordinator::Request> describe_plan(std::span<const NamedTensor> gradients, ReduceOp op,
                                                std::size_t bucket_bytes,
                                                std::optional<DataType> wire,
                                                const Compression& compression,
                                                std::span<const std::string> options = {});

/// Compares descriptions[0] with the descriptions of the other ranks. Returns a text for the first
/// difference, or an empty text if there is none. The text contains the name of the plan, the
/// values that differ, and the names of both ranks. rank_names[r] is the name of rank r. Pure.
std::string find_plan_mismatch(const std::string& plan_name,
                               std::span<const std::vector<coordinator::Request>> descriptions,
                               std::span<const std::string> rank_names);

/// Compares the descriptions of all ranks. Collective. If they are equal, the comparison costs one
/// allreduce of 16 bytes. If they differ, the ranks gather the descriptions, and every rank throws
/// MismatchError with the text of find_plan_mismatch().
void agree_on_plan(const std::string& plan_name, std::span<const coordinator::Request> description,
                   collectives::Collectives& collectives, const Topology& topology);

/// Numbers the plans of one job or process set that exist at the same time and have the same name.
/// Any thread may call release(). All ranks must call agree() in the same order, one call at a
/// time.
class PlanNames {
 public:
  /// Returns a number for a new plan called `name`. All ranks get the same number. It is 1 if no
  /// rank has a plan of this name. Otherwise, it is the largest number that a rank has in use
  /// plus 1. On each rank, the number is in use until release(). Collective. Costs one allreduce of
  /// 8 bytes.
  int agree(const std::string& name, collectives::Collectives& collectives);
  void release(const std::string& name, int number);

 private:
  std::mutex mutex_;  // guards taken_
  std::map<std::string, std::set<int>> taken_;
};

/// For the name "net", returns "net" if `number` is 1, and "net#2" if `number` is 2.
std::string numbered_name(const std::string& name, int number);

}  // namespace horo::plan
