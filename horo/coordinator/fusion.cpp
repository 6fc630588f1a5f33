#include "horo/coordinator/fusion.h"

namespace horo::coordinator {
namespace {

Response::Tensor reference_to(const Request& request, const ResponseCache& cache) {
  if (const auto id = cache.find(request)) return {*id, {}};
  return {0, request.name};
}

Response response_to(const Agreement& agreement, const ResponseCache& cache) {
  const Request& request = agreement.requests.front();
  Response response;
  response.kind = request.kind;
  response.type = request.type;
  response.op = request.op;
  response.root = request.root;
  response.tensors.push_back(reference_to(request, cache));
  if (!agreement.mismatch.empty()) {
    response.tensors = {{0, request.name}};
    response.error = ErrorKind::kMismatch;
    response.error_text = agreement.mismatch;
  } else if (request.kind == Kind::kAllgather) {
    for (const Request& own : agreement.requests) response.rows_of.push_back(own.shape[0]);
  } else if (request.kind == Kind::kAlltoall) {
    for (const Request& own : agreement.requests)
      response.rows_of.insert(response.rows_of.end(), own.splits.begin(), own.splits.end());
  }
  return response;
}

}  // namespace

std::vector<Response> fuse(const std::vector<Agreement>& agreements, std::size_t bucket_bytes,
                           const ResponseCache& cache) {
  std::vector<Response> responses;
  std::size_t open_bytes = 0;  // of the last response, if it may still grow; 0: it may not
  for (const Agreement& agreement : agreements) {
    Response response = response_to(agreement, cache);
    const Request& request = agreement.requests.front();
    const std::size_t bytes = request.shape.count() * size_of(request.type);
    const bool can_share = response.kind == Kind::kAllreduce && response.error == ErrorKind::kNone;
    if (can_share && open_bytes > 0 && open_bytes + bytes <= bucket_bytes &&
        responses.back().type == response.type && responses.back().op == response.op) {
      responses.back().tensors.push_back(std::move(response.tensors.front()));
      open_bytes += bytes;
      continue;
    }
    responses.push_back(std::move(response));
    open_bytes = can_share ? bytes : 0;
  }
  return responses;
}

}  // namespace horo::coordinator
