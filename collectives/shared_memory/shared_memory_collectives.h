#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/collectives.h"
#include "collectives/shared_memory/node_memory.h"
#include "collectives/shared_memory/store_chooser.h"
#include "horo/base/environment.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce inside a node on buffers that the ranks of the node have mapped from each other. Rank
/// r reads chunk r of every buffer, combines the values in rank order and writes the result to all
/// buffers. Nothing is staged. With buffers of N bytes, a rank reads N bytes, writes N bytes and
/// waits twice for each peer.
void mapped_allreduce(NodeMemory& memory, const MappedBuffer& buffer, ReduceOp op);

/// Collectives among ranks that share memory. For every element, the values of the ranks are
/// combined in rank order. The bits of a result therefore do not depend on how tensors are packed
/// into buffers or how buffers are cut into segments.
class SharedMemoryCollectives : public Collectives {
 public:
  struct Options {
    std::size_t segment_bytes = 256 * 1024;  ///< segment size of the pipeline, a multiple of 4 KiB
    std::size_t direct_bytes = 8 * 1024;     ///< the largest buffer for direct_allreduce()
    Stores stores = Stores::kAuto;
  };
  /// Returns the bytes that the shared region must hold.
  static std::size_t bytes_needed(int ranks, const Options& options);

  /// See NodeMemory for the arguments. `policy` must outlive this object.
  SharedMemoryCollectives(std::unique_ptr<SharedRegion> region, int rank,
                          std::vector<std::string> rank_names, const Options& options,
                          const WaitPolicy& policy);

  std::string_view name() const override { return "shared_memory"; }
  void allreduce(const ScatteredBuffer& buffer, ReduceOp op) override;
  void allreduce_mapped(const MappedBuffer& buffer, ReduceOp op) override;
  bool uses_mapped_buffers() const override { return true; }
  void broadcast(const ScatteredBuffer& buffer, int root) override;
  void allgather(std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                 std::span<std::byte> output) override;
  void reduce_scatter(const std::byte* input, DataType type, std::span<const std::size_t> count_of,
                      std::byte* output, ReduceOp op) override;
  void alltoall(std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                std::span<std::byte> output, std::span<const std::size_t> bytes_from) override;
  void barrier() override;

  /// Returns the bandwidths that the latest probe of the stores has measured, or zeros if there was
  /// no probe.
  const StoreBandwidths& store_bandwidths() const { return chooser_.bandwidths(); }

 private:
  Options options_;
  NodeMemory memory_;
  StoreChooser chooser_;
  std::vector<std::byte> scratch_;
};

}  // namespace horo::collectives
