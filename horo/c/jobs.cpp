// Jobs, process sets, arenas, phases, counters and GPUs.
#include <fmt/format.h>

#include <vector>

#include "horo/bootstrap.h"
#include "horo/c/objects.h"
#include "horo/c/status.h"
#include "horo/c/values.h"

using horo::c::guarded;
using horo::c::required;

namespace {

/// The result of a function of the rank's place, or -1.
template <typename Function>
int place(const horo_context* context, const Function& function) {
  try {
    return context == nullptr ? -1 : function(context->get());
  } catch (const horo::Error&) {  // not a member
    return -1;
  }
}

}  // namespace

extern "C" {

horo_status horo_init(horo_context** context) {
  return guarded([&] {
    horo_context*& result = required(context, "horo_init", "context");
    result = new horo_context{horo::init()};
  });
}

horo_status horo_init_bootstrap(const horo_bootstrap* bootstrap, horo_context** context) {
  return guarded([&] {
    const horo_bootstrap given = horo::c::complete(
        &required(bootstrap, "horo_init_bootstrap", "bootstrap"), horo_bootstrap{});
    horo_context*& result = required(context, "horo_init_bootstrap", "context");
    (void)required(given.allgather, "horo_init_bootstrap", "bootstrap->allgather");
    result = new horo_context{horo::init(
        horo::Bootstrap{given.rank, given.rank_count,
                        [given](std::span<const std::byte> own, std::span<std::byte> all) {
                          if (given.allgather(own.data(), own.size(), all.data(), given.data) != 0)
                            throw horo::CommunicationError(
                                "horo_init_bootstrap: the function 'allgather' has failed");
                        }})};
  });
}

horo_status horo_shutdown(horo_context* context) {
  const std::unique_ptr<horo_context> owner(context);
  return guarded([&] {
    if (context == nullptr || std::holds_alternative<horo::Context*>(context->of)) return;
    if (auto* const set = std::get_if<horo::ProcessSet>(&context->of)) return set->close();
    context->get().shutdown();
  });
}

int horo_rank(const horo_context* context) {
  return place(context, [](const horo::Context& job) { return job.rank(); });
}
int horo_size(const horo_context* context) {
  if (context != nullptr && context->set() != nullptr) return context->set()->size();
  return place(context, [](const horo::Context& job) { return job.size(); });
}
int horo_local_rank(const horo_context* context) {
  return place(context, [](const horo::Context& job) { return job.local_rank(); });
}
int horo_local_size(const horo_context* context) {
  return place(context, [](const horo::Context& job) { return job.local_size(); });
}
int horo_node(const horo_context* context) {
  return place(context, [](const horo::Context& job) { return job.node(); });
}
int horo_node_count(const horo_context* context) {
  return place(context, [](const horo::Context& job) { return job.node_count(); });
}

horo_status horo_process_set_create(horo_context* context, const int* ranks, size_t count,
                                    horo_context** set) {
  return guarded([&] {
    horo::Context& job = required(context, "horo_process_set_create", "context").get();
    horo_context*& result = required(set, "horo_process_set_create", "set");
    const int* const first = &required(ranks, "horo_process_set_create", "ranks");
    result = new horo_context{job.new_process_set(std::vector<int>(first, first + count))};
  });
}

int horo_process_set_includes_me(const horo_context* set) {
  return set != nullptr && (set->set() == nullptr || set->set()->includes_me()) ? 1 : 0;
}

horo_status horo_arena_create(horo_context* context, size_t bytes, horo_arena** arena) {
  return guarded([&] {
    horo_arena*& result = required(arena, "horo_arena_create", "arena");
    result =
        new horo_arena{required(context, "horo_arena_create", "context").get().allocate(bytes)};
  });
}
void* horo_arena_data(const horo_arena* arena) {
  return arena == nullptr ? nullptr : arena->arena.bytes().data();
}
size_t horo_arena_bytes(const horo_arena* arena) {
  return arena == nullptr ? 0 : arena->arena.bytes().size();
}
void horo_arena_destroy(horo_arena* arena) { delete arena; }

horo_status horo_phase_begin(horo_context* context, const char* name, horo_scope** scope) {
  return guarded([&] {
    horo_scope*& result = required(scope, "horo_phase_begin", "scope");
    result = new horo_scope{required(context, "horo_phase_begin", "context")
                                .get()
                                .phase(&required(name, "horo_phase_begin", "name"))};
  });
}
horo_status horo_pause_begin(horo_context* context, const char* name, horo_scope** scope) {
  return guarded([&] {
    horo_scope*& result = required(scope, "horo_pause_begin", "scope");
    result = new horo_scope{required(context, "horo_pause_begin", "context")
                                .get()
                                .pause(&required(name, "horo_pause_begin", "name"))};
  });
}
void horo_scope_end(horo_scope* scope) { delete scope; }

horo_status horo_get_counters(const horo_context* context, horo_counters* counters) {
  return guarded([&] {
    horo_counters& to = required(counters, "horo_get_counters", "counters");
    const horo::Counters of = required(context, "horo_get_counters", "context").get().counters();
    horo::c::give(
        {sizeof(horo_counters), of.control_messages_sent, of.control_bytes_sent,
         of.node_messages_sent, of.node_bytes_sent, of.collectives, of.tensors, of.payload_bytes},
        to);
  });
}

horo_status horo_open_gpu(horo_context* context, horo_device** device) {
  return guarded([&] {
    horo_device*& result = required(device, "horo_open_gpu", "device");
    result = new horo_device{horo::open_gpu(required(context, "horo_open_gpu", "context").get())};
  });
}
void horo_device_destroy(horo_device* device) { delete device; }

}  // extern "C"
