#include "horo/coordinator/negotiator.h"

#include <fmt/format.h>

#include <algorithm>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

// Dimensions that ranks must share: the first one of an allgather or alltoall is each rank's own
// affair.
bool shapes_agree(const Request& a, const Request& b) {
  if (a.kind != Kind::kAllgather && a.kind != Kind::kAlltoall) return a.shape == b.shape;
  if (a.shape.rank() != b.shape.rank()) return false;
  return std::equal(a.shape.dimensions().begin() + 1, a.shape.dimensions().end(),
                    b.shape.dimensions().begin() + 1);
}

std::string_view differing_field(const Request& a, const Request& b) {
  if (a.kind != b.kind) return "the operations differ";
  if (a.type != b.type) return "the element types differ";
  if (a.op != b.op) return "the reduce operations differ";
  if (a.root != b.root) return "the roots differ";
  if (!shapes_agree(a, b)) return "the shapes differ";
  return {};
}

}  // namespace

std::string describe_mismatch(const Request& a, const std::string& first, const Request& b,
                              const std::string& second) {
  const std::string_view field = differing_field(a, b);
  if (field.empty()) return {};
  return fmt::format("tensor '{}': {} submitted {}, {} submitted {}: {}", a.name, first,
                     a.describe(), second, b.describe(), field);
}

std::optional<Agreement> Negotiator::add(int rank, Request request, Time now) {
  if (request.kind == Kind::kShutdown) {
    departed_.push_back(rank);
    orphans_possible_ = true;
  }
  auto [it, is_new] = book_.try_emplace(request.name);
  Page& page = it->second;
  if (is_new) {
    page.requests.resize(topology_.size);
    page.since = now;
    page.number = ++pages_;
    if (!departed_.empty()) orphans_possible_ = true;
  }
  if (page.requests[rank])
    throw CommunicationError(
        fmt::format("{} submitted '{}' twice", topology_.describe(rank), request.name));
  page.requests[rank] = std::move(request);
  if (++page.submitted < topology_.size) return std::nullopt;

  Agreement agreement;
  for (auto& own : page.requests) agreement.requests.push_back(std::move(*own));
  agreement.mismatch = find_mismatch(agreement.requests);
  book_.erase(it);
  return agreement;
}

std::string Negotiator::find_mismatch(const std::vector<Request>& requests) const {
  for (std::size_t r = 1; r < requests.size(); ++r) {
    std::string text = describe_mismatch(requests[0], topology_.describe(0), requests[r],
                                         topology_.describe(static_cast<int>(r)));
    if (!text.empty()) return text;
  }
  return {};
}

std::vector<Waiting> Negotiator::waiting_longer_than(std::chrono::nanoseconds age, Time now) const {
  std::vector<std::pair<std::uint64_t, Waiting>> found;
  for (const auto& [name, page] : book_) {
    if (now - page.since < age) continue;
    Waiting waiting{name, now - page.since, {}};
    for (int r = 0; r < topology_.size; ++r)
      if (!page.requests[r]) waiting.missing.push_back(r);
    found.emplace_back(page.number, std::move(waiting));
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Waiting> result;
  for (auto& [number, waiting] : found) result.push_back(std::move(waiting));
  return result;
}

std::vector<Negotiator::Orphan> Negotiator::take_orphans() {
  std::vector<Orphan> orphans;
  if (!orphans_possible_) return orphans;
  orphans_possible_ = false;
  for (auto it = book_.begin(); it != book_.end();) {
    // A rank's shutdown is its last request: what it has not submitted by then will not come.
    const auto gone = std::find_if(departed_.begin(), departed_.end(), [&](int rank) {
      return !it->second.requests[rank].has_value();
    });
    if (gone == departed_.end()) {
      ++it;
      continue;
    }
    orphans.push_back({it->first, *gone});
    it = book_.erase(it);
  }
  std::sort(orphans.begin(), orphans.end(),
            [](const Orphan& a, const Orphan& b) { return a.name < b.name; });
  return orphans;
}

}  // namespace horo::coordinator
