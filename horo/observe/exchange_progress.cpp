#include "horo/observe/exchange_progress.h"

#include <fmt/format.h>

namespace horo::observe {

void ExchangeProgress::add_to(RankSnapshot& snapshot, std::string_view plan, std::size_t buckets) {
  // In this order: what has begun after it was looked at is not seen to have ended.
  const std::uint64_t ended = ended_.load(std::memory_order_relaxed);
  const std::uint64_t begun = begun_.load(std::memory_order_relaxed);
  const auto name_of = [&](std::uint64_t exchange) {
    return fmt::format("{}/bucket {}", plan, exchange % buckets);
  };
  snapshot.finished += ended;
  if (ended != seen_ended_) snapshot.last_finished = name_of(ended - 1);
  seen_ended_ = ended;
  if (begun != seen_begun_) {
    seen_begun_ = begun;
    seen_at_ = snapshot.taken;
  }
  if (begun <= ended) return;
  OpenOperation operation;
  operation.name = name_of(begun - 1);
  // As of a gradient: other ranks may be ahead, or behind, without having agreed to anything first.
  operation.kind = "gradient";
  operation.submitted = seen_at_;
  snapshot.open.push_back(std::move(operation));
}

}  // namespace horo::observe
