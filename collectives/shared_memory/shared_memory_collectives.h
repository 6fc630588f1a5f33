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

/// Allreduce inside a node on buffers that its ranks have mapped from each other. Rank r reads
/// chunk r of every buffer, combines the values in rank order and writes the result to all buffers.
/// Nothing is staged. Cost per rank for N bytes: N bytes read, N bytes written, two waits for each
/// peer.
void mapped_allreduce(NodeMemory& memory, const MappedBuffer& buffer, ReduceOp op);

/// Collectives among ranks that share memory. For every element the ranks' values are combined in
/// rank order, so the bits of a result do not depend on how buffers are packed or cut.
class SharedMemoryCollectives : public Collectives {
 public:
  struct Options {
    std::size_t segment_bytes = 256 * 1024;  ///< of the pipeline, a multiple of 4 KiB
    std::size_t direct_bytes = 8 * 1024;     ///< up to this size: direct_allreduce()
    Stores stores = Stores::kAuto;
  };
  static std::size_t bytes_needed(int ranks, const Options& options);

  /// See NodeMemory. `policy` outlives this.
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

  /// Returns the bandwidths on which the latest choice between plain and streaming stores is based;
  /// zeros if none was measured.
  const StoreBandwidths& store_bandwidths() const { return chooser_.bandwidths(); }

 private:
  Options options_;
  NodeMemory memory_;
  StoreChooser chooser_;
  std::vector<std::byte> scratch_;
};

}  // namespace horo::collectives
