#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <utility>

#include "horo/c/objects.h"
#include "horo/c/status.h"
#include "horo/c/values.h"

namespace {

using namespace horo::c;  // NOLINT: the implementation of its interface

horo::Context& job_of(horo_context* context, const char* function) {
  return required(context, function, "context").get();
}

/// The arguments that all asynchronous operations have.
struct Call {
  const char* function;
  horo::Context& job;
  horo_options options;
  horo_handle& result;

  horo::TensorView view(const horo_tensor* tensor, const char* argument) const {
    return view_of(required(tensor, function, argument));
  }
};

/// Submits an operation: `submit(call)` stores its handle in call.result.
template <typename Submit>
horo_status start(const char* function, horo_context* context, const horo_options* options,
                  horo_handle** handle, const Submit& submit) {
  return guarded([&] {
    horo_handle*& result = required(handle, function, "handle");
    // Allocated first, so that too little memory does not lose an operation in flight.
    auto object = std::make_unique<horo_handle>();
    submit(Call{function, job_of(context, function), complete(options, HORO_OPTIONS), *object});
    result = object.release();
  });
}

horo::AllreduceOptions reduction(const horo_options& options, const char* name) {
  return {.name = text_of(name),
          .op = op_of(options.op),
          .prescale = options.prescale,
          .postscale = options.postscale,
          .stream = options.stream};
}

horo::BroadcastOptions broadcast_options(const horo_options& options, const char* name) {
  return {.name = text_of(name), .root = options.root, .stream = options.stream};
}

horo_status run_blocking(const char* function, horo_context* context, const auto& operation) {
  return guarded([&] { operation(job_of(context, function)); });
}

/// Memory that horo_free() frees.
void* copy_for_caller(std::span<const std::byte> bytes) {
  void* const memory = std::malloc(std::max<std::size_t>(bytes.size(), 1));
  if (memory == nullptr) throw std::bad_alloc();
  if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  return memory;
}

std::span<const std::byte> bytes_of(const void* object, std::size_t bytes, const char* function) {
  if (bytes == 0) return {};
  return {static_cast<const std::byte*>(
              &required(static_cast<const std::byte*>(object), function, "object")),
          bytes};
}

}  // namespace

extern "C" {

horo_status horo_allreduce(horo_context* context, void* data, size_t count, horo_data_type type,
                           horo_reduce_op op, const char* name) {
  return run_blocking("horo_allreduce", context, [&](horo::Context& job) {
    job.allreduce(vector_of(data, count, type), {.name = text_of(name), .op = op_of(op)});
  });
}

horo_status horo_broadcast(horo_context* context, void* data, size_t count, horo_data_type type,
                           int root, const char* name) {
  return run_blocking("horo_broadcast", context, [&](horo::Context& job) {
    job.broadcast(vector_of(data, count, type), {.name = text_of(name), .root = root});
  });
}

horo_status horo_allgather(horo_context* context, const void* input, size_t input_count,
                           void* output, size_t output_count, horo_data_type type,
                           const char* name) {
  return run_blocking("horo_allgather", context, [&](horo::Context& job) {
    job.allgather(vector_of(input, input_count, type), vector_of(output, output_count, type),
                  {.name = text_of(name)});
  });
}

horo_status horo_reduce_scatter(horo_context* context, const void* input, size_t count,
                                void* output, horo_data_type type, horo_reduce_op op,
                                const char* name) {
  return run_blocking("horo_reduce_scatter", context, [&](horo::Context& job) {
    job.reduce_scatter(vector_of(input, count, type),
                       vector_of(output, job.shard_rows(count), type),
                       {.name = text_of(name), .op = op_of(op)});
  });
}

size_t horo_shard_rows(const horo_context* context, size_t rows) {
  try {
    return context == nullptr ? 0 : context->get().shard_rows(rows);
  } catch (const horo::Error&) {  // not a member
    return 0;
  }
}

horo_status horo_barrier(horo_context* context, const char* name) {
  return run_blocking("horo_barrier", context,
                      [&](horo::Context& job) { job.barrier({.name = text_of(name)}); });
}

horo_status horo_join(horo_context* context, int* last_rank) {
  return run_blocking("horo_join", context, [&](horo::Context& job) {
    const int last = job.join();
    if (last_rank != nullptr) *last_rank = last;
  });
}

horo_status horo_check_equal(horo_context* context, const horo_tensor* tensors, size_t count,
                             const char* name, uint64_t every) {
  return run_blocking("horo_check_equal", context, [&](horo::Context& job) {
    job.check_equal(named(tensors, count), {.name = text_of(name), .every = every});
  });
}

horo_status horo_broadcast_object(horo_context* context, const void* object, size_t bytes, int root,
                                  const char* name, void** result, size_t* result_bytes) {
  return run_blocking("horo_broadcast_object", context, [&](horo::Context& job) {
    void*& to = required(result, "horo_broadcast_object", "result");
    size_t& to_bytes = required(result_bytes, "horo_broadcast_object", "result_bytes");
    std::vector<std::byte> values;
    if (job.rank() == root) {
      const auto own = bytes_of(object, bytes, "horo_broadcast_object");
      values.assign(own.begin(), own.end());
    }
    job.broadcast_object(values, {.name = text_of(name), .root = root});
    to = copy_for_caller(values);
    to_bytes = values.size();
  });
}

horo_status horo_allgather_object(horo_context* context, const void* object, size_t bytes,
                                  const char* name, void** result, size_t* sizes) {
  return run_blocking("horo_allgather_object", context, [&](horo::Context& job) {
    void*& to = required(result, "horo_allgather_object", "result");
    size_t* const to_sizes = &required(sizes, "horo_allgather_object", "sizes");
    const auto objects = job.allgather_object(bytes_of(object, bytes, "horo_allgather_object"),
                                              {.name = text_of(name)});
    std::vector<std::byte> all;
    for (const auto& one : objects) all.insert(all.end(), one.begin(), one.end());
    to = copy_for_caller(all);
    std::ranges::transform(objects, to_sizes, [](const auto& one) { return one.size(); });
  });
}

void horo_free(void* memory) { std::free(memory); }

horo_status horo_allreduce_async(horo_context* context, const horo_tensor* tensor,
                                 const horo_options* options, horo_handle** handle) {
  return start(__func__, context, options, handle, [&](const Call& call) {
    const auto in_place = call.view(tensor, "tensor");
    call.result.handle = call.job.allreduce_async(in_place, reduction(call.options, tensor->name));
  });
}

horo_status horo_allreduce_into_async(horo_context* context, const horo_tensor* input,
                                      const horo_tensor* output, const horo_options* options,
                                      horo_handle** handle) {
  return start(__func__, context, options, handle, [&](const Call& call) {
    const auto from = call.view(input, "input");
    call.result.handle = call.job.allreduce_async(from, call.view(output, "output"),
                                                  reduction(call.options, input->name));
  });
}

horo_status horo_allreduce_group_async(horo_context* context, const horo_tensor* tensors,
                                       size_t count, const horo_options* options,
                                       horo_handle** handle) {
  return start(__func__, context, options, handle, [&](const Call& call) {
    call.result.handle = call.job.allreduce_group_async(named(tensors, count),
                                                        reduction(call.options, call.options.name));
  });
}

horo_status horo_broadcast_async(horo_context* context, const horo_tensor* tensor,
                                 const horo_options* options, horo_handle** handle) {
  return start(__func__, context, options, handle, [&](const Call& call) {
    const auto values = call.view(tensor, "tensor");
    call.result.handle =
        call.job.broadcast_async(values, broadcast_options(call.options, tensor->name));
  });
}

horo_status horo_broadcast_group_async(horo_context* context, const horo_tensor* tensors,
                                       size_t count, const horo_options* options,
                                       horo_handle** handle) {
  return start(__func__, context, options, handle, [&](const Call& call) {
    call.result.handle = call.job.broadcast_group_async(
        named(tensors, count), broadcast_options(call.options, call.options.name));
  });
}

horo_status horo_allgather_async(horo_context* context, const horo_tensor* input,
                                 const horo_tensor* output, const horo_options* options,
                                 horo_handle** handle) {
  return start(__func__, context, options, handle, [&](const Call& call) {
    const auto from = call.view(input, "input");
    call.result.handle =
        call.job.allgather_async(from, call.view(output, "output"),
                                 {.name = text_of(input->name), .stream = call.options.stream});
  });
}

horo_status horo_reduce_scatter_async(horo_context* context, const horo_tensor* input,
                                      const horo_tensor* output, const horo_options* options,
                                      horo_handle** handle) {
  return start(__func__, context, options, handle, [&](const Call& call) {
    const auto from = call.view(input, "input");
    call.result.handle = call.job.reduce_scatter_async(from, call.view(output, "output"),
                                                       {.name = text_of(input->name),
                                                        .op = op_of(call.options.op),
                                                        .prescale = call.options.prescale,
                                                        .postscale = call.options.postscale,
                                                        .stream = call.options.stream});
  });
}

horo_status horo_alltoall_async(horo_context* context, const horo_tensor* input,
                                const size_t* splits, const horo_tensor* output,
                                const horo_options* options, horo_handle** handle) {
  return start(__func__, context, options, handle, [&](const Call& call) {
    const auto from = call.view(input, "input");
    horo::AlltoallOptions how{.name = text_of(input->name), .stream = call.options.stream};
    if (splits != nullptr) how.splits.assign(splits, splits + call.job.size());
    call.result.alltoall = call.job.alltoall_async(from, call.view(output, "output"), how);
    call.result.handle = *call.result.alltoall;
  });
}

horo_status horo_send_async(horo_context* context, const horo_tensor* tensor, int to,
                            horo_handle** handle) {
  return start(__func__, context, nullptr, handle, [&](const Call& call) {
    const auto values = call.view(tensor, "tensor");
    call.result.handle = call.job.send_async(values, {.name = text_of(tensor->name), .to = to});
  });
}

horo_status horo_recv_async(horo_context* context, const horo_tensor* tensor, int from,
                            horo_handle** handle) {
  return start(__func__, context, nullptr, handle, [&](const Call& call) {
    const auto values = call.view(tensor, "tensor");
    call.result.handle = call.job.recv_async(values, {.name = text_of(tensor->name), .from = from});
  });
}

int horo_is_done(const horo_handle* handle) {
  return handle != nullptr && handle->handle.is_done() ? 1 : 0;
}

horo_status horo_wait(horo_handle* handle) {
  const std::unique_ptr<horo_handle> owner(handle);
  return guarded([&] { required(handle, "horo_wait", "handle").handle.wait(); });
}

horo_status horo_received_splits(horo_handle* handle, size_t* splits, size_t count) {
  constexpr auto kFunction = "horo_received_splits";
  return guarded([&] {
    const horo_handle& of = required(handle, kFunction, "handle");
    size_t* const to = &required(splits, kFunction, "splits");
    HORO_CHECK(of.alltoall, "horo_received_splits: the handle is not that of an alltoall");
    const std::vector<std::size_t> received = of.alltoall->received_splits();
    HORO_CHECK(received.size() == count, "horo_received_splits: count must be horo_size()");
    std::ranges::copy(received, to);
  });
}

horo_status horo_wait_on(horo_handle* handle, void* stream) {
  return guarded([&] { required(handle, "horo_wait_on", "handle").handle.wait_on(stream); });
}

horo_status horo_then(horo_handle* handle,
                      void (*callback)(horo_status status, const char* error, void* user),
                      void* user) {
  return guarded([&] {
    const auto call = &required(callback, "horo_then", "callback");
    required(handle, "horo_then", "handle").handle.then([call, user](const std::exception_ptr& e) {
      if (e == nullptr) return call(HORO_OK, "", user);
      const horo_status status = guarded([&] { std::rethrow_exception(e); });
      call(status, horo_last_error(), user);
    });
  });
}

void horo_handle_destroy(horo_handle* handle) { delete handle; }

}  // extern "C"
