#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "horo/base/topology.h"
#include "horo/observe/state_source.h"

namespace horo::observe {

/// Puts together what a rank is doing from what its parts know of it. Thread-safe.
class RankActivity : public StateSource {
 public:
  /// Adds a part's open operations and its count of finished ones to the snapshot, and sets
  /// last_finished if it has finished any since it was last asked. Asked by one thread at a time.
  using Part = std::function<void(RankSnapshot&)>;
  /// Keeps a part registered as long as it lives.
  using Registration = std::shared_ptr<void>;

  explicit RankActivity(const Topology& topology);

  /// The activity outlives the registration.
  [[nodiscard]] Registration add(Part part);
  /// The rank gives up. The first call counts.
  void fail(const std::string& text);

  RankSnapshot snapshot() override;

 private:
  const int rank_;
  const std::string host_;
  std::mutex mutex_;  // guards all below
  std::map<std::uint64_t, Part> parts_;
  std::uint64_t last_part_ = 0;
  std::string failure_;
  std::uint64_t finished_ = 0;
  std::string last_finished_;
  WallTime last_finished_at_ = 0;
};

}  // namespace horo::observe
