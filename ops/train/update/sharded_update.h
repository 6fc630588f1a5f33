#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "ops/train/update/update_method.h"

namespace horo::ops {

struct ShardedUpdateOptions {
  std::optional<double> clip_norm{};
  bool check_finite = false;
  /// Parameters are exchanged together up to this size.
  std::size_t bucket_bytes = std::size_t{4} << 20;
};

/// Every rank keeps the state of the optimizer for a shard of the parameters, and updates this
/// shard: stage 1 of ZeRO. Parameters and gradients are moved into buckets of contiguous memory.
/// Per step and bucket: a reduce_scatter of the gradients as soon as all of them are ready, the
/// update of this rank's share of the rows, an allgather of the parameters. Together they send as
/// much as an allreduce, 2 (n-1)/n of the bytes. The optimizer state of a rank is 1/n of the whole.
///
/// Inside a node, sums have the order of the ranks with and without shards, so that parameters and
/// losses have the same bits. With clip_norm, the squares of the norm are summed in another order,
/// which can change the last bit of the factor. Between nodes, an allreduce may also sum in another
/// order than a reduce_scatter. Source: Rajbhandari et al., "ZeRO: memory optimizations toward
/// training trillion parameter models" (2020).
class ShardedUpdate : public UpdateMethod {
 public:
  /// Divides the state of the optimizer; the part of other ranks is freed. See
  /// make_update_method(). Throws InvalidArgument for an optimizer that needs whole parameters.
  ShardedUpdate(Context& context, Optimizer& optimizer, GradientSync& scalar_sync,
                const StepScalars& scalars, const ShardedUpdateOptions& options);
  /// If finish() has not returned, logs that the state is lost, and sets it to zero.
  ~ShardedUpdate() override;

  void ready(std::size_t index) override;
  void exchange() override;
  void update() override;
  std::vector<StepOutcome> outcomes(bool all) override;
  void finish() override;
  std::vector<std::size_t> bucket_elements() const override;

 private:
  struct Member {
    std::size_t parameter = 0;  // index in the model
    std::size_t first = 0;      // row of its first element
  };
  struct Bucket {
    std::string name;
    std::vector<Member> members{};
    std::size_t rows = 0;          // elements, with padding
    std::size_t own_first = 0;     // the rows that this rank updates
    Tensor gradients{}, values{};  // [rows], of this rank
    Tensor reduced{};              // average gradients of the own rows
    std::size_t missing = 0;       // gradients that are not ready
    std::size_t first_part = 0;    // in parts_
    Handle operation{};
  };

  void plan_buckets();
  void allocate(Bucket& bucket);
  void add_parts(Bucket& bucket);
  StepOutcome examine();
  void scale_gradients(double factor);
  void gather_values();
  Tensor gather_state(Bucket& bucket, std::span<Tensor> parts);

  Context& context_;
  Optimizer& optimizer_;
  GradientSync& scalar_sync_;
  const StepScalars& scalars_;
  const ShardedUpdateOptions options_;
  const std::vector<Parameter*> wholes_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // of each parameter
  std::deque<Parameter> parts_;         // of this rank
  std::vector<ParameterPart> divided_;  // the same for the optimizer
  std::vector<StepOutcome> outcomes_;
  bool is_finished_ = false;
};

}  // namespace horo::ops
