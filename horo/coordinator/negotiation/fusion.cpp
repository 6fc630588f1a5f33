#include "horo/coordinator/negotiation/fusion.h"

#include <fmt/format.h>

#include <algorithm>

namespace horo::coordinator {
namespace {

Response::Tensor reference_to(const Contribution& contribution, const ResponseCache& cache) {
  if (contribution.cached != 0 && cache.is_live(contribution.cached))
    return {contribution.cached, {}};
  if (contribution.absent.empty()) return {0, contribution.name()};
  return {0, contribution.name(), contribution.request()};
}

std::vector<std::uint64_t> rows_in_order(const Contribution& contribution) {
  if (contribution.agreed) return contribution.agreed->rows_of;
  std::vector<std::uint64_t> all;
  for (const Contribution::Rows& own : contribution.rows)
    all.insert(all.end(), own.rows.begin(), own.rows.end());
  return all;
}

// Returns whether ranks may be absent. An absent rank contributes identity values, which are
// implemented only for elementwise allreduces of tensors in host memory.
bool can_do_without(const Request& request) {
  return request.kind == Kind::kAllreduce && is_elementwise(request.op) &&
         request.device_queue == 0;
}

// Returns the error of an operation that cannot be executed; otherwise an empty text. All ranks
// receive this text, so all ranks that submitted the operation throw the same error.
std::string find_error(const Contribution& contribution, const Topology& topology) {
  if (contribution.variants.size() > 1) {
    const Contribution::Variant& first = contribution.variants[0];
    const Contribution::Variant& second = contribution.variants[1];
    return describe_mismatch(first.request, topology.describe(first.rank), second.request,
                             topology.describe(second.rank));
  }
  const Request& request = contribution.request();
  if (contribution.absent.empty() || can_do_without(request)) return {};
  return fmt::format(
      "tensor '{}': {} has joined, but {} requires every rank; after a join, other ranks can "
      "submit only allreduces (sum, average, min, max, product)",
      request.name, topology.describe(contribution.absent.front()), request.describe());
}

Response response_to(const Contribution& contribution, const ResponseCache& cache,
                     const Topology& topology) {
  const Request& request = contribution.request();
  Response response;
  response.kind = request.kind;
  response.type = request.type;
  response.op = request.op;
  response.root = request.root;
  response.error_text = find_error(contribution, topology);
  if (!response.error_text.empty()) {
    response.tensors = {{0, request.name}};
    response.error = ErrorKind::kMismatch;
    return response;
  }
  response.tensors.push_back(reference_to(contribution, cache));
  response.absent = contribution.absent;
  response.rows_of = rows_in_order(contribution);
  return response;
}

// The maximum number of tensors in a bucket. The limit bounds the latency, because no operation of
// a bucket completes before the rank has looked up all tensors of the bucket and noted them in the
// cache.
constexpr std::size_t kMostTensors = 4096;

// A response to which tensors may still be added. `response` is the index of the response, and
// `first` is the request of its first tensor.
struct Bucket {
  std::size_t response = 0;
  std::size_t bytes = 0;
  const Request* first = nullptr;
};

bool can_share(const Response& response, const Request& request) {
  return response.kind == Kind::kAllreduce && response.error == ErrorKind::kNone &&
         request.members.empty();
}

// On a device, one kernel copies and scales several tensors of a bucket, so all tensors of a bucket
// must have equal factors. On the host, each tensor is scaled separately.
bool can_move_together(const Request& a, const Request& b) {
  return a.device_queue == b.device_queue && (a.device_queue == 0 || a.scale == b.scale);
}

}  // namespace

// `open` holds the latest bucket for each combination of type, operation, absent ranks, device
// queue and, on a device, scale factors. If a tensor does not fit into the latest bucket, a new
// bucket replaces that bucket in `open`. Bucket::first points into `complete`.
std::vector<Response> fuse(std::span<const Contribution> complete, std::size_t bucket_bytes,
                           const ResponseCache& cache, const Topology& topology) {
  std::vector<Response> responses;
  std::vector<Bucket> open;
  for (const Contribution& contribution : complete) {
    Response response = response_to(contribution, cache, topology);
    const std::size_t bytes = contribution.request().bytes();
    if (!can_share(response, contribution.request())) {
      responses.push_back(std::move(response));
      continue;
    }
    const auto bucket = std::ranges::find_if(open, [&](const Bucket& candidate) {
      const Response& other = responses[candidate.response];
      return other.type == response.type && other.op == response.op &&
             other.absent == response.absent &&
             can_move_together(*candidate.first, contribution.request());
    });
    if (bucket != open.end() && bucket->bytes + bytes <= bucket_bytes &&
        responses[bucket->response].tensors.size() < kMostTensors) {
      responses[bucket->response].tensors.push_back(std::move(response.tensors.front()));
      bucket->bytes += bytes;
      continue;
    }
    if (bucket == open.end())
      open.push_back({responses.size(), bytes, &contribution.request()});
    else
      *bucket = {responses.size(), bytes, &contribution.request()};
    responses.push_back(std::move(response));
  }
  return responses;
}

}  // namespace horo::coordinator
