#include "horo/gradient_sync.h"

#include <memory>

#include "horo/c/objects.h"
#include "horo/c/status.h"
#include "horo/c/values.h"

using namespace horo::c;  // NOLINT: the implementation of its interface

namespace {

horo::Compression compression_of(const horo_gradient_sync_options& options) {
  using Kind = horo::Compression::Kind;
  static_assert(static_cast<int>(Kind::kPowerSgd) == HORO_POWERSGD &&
                static_cast<int>(Kind::kTopK) == HORO_TOP_K &&
                static_cast<int>(Kind::kInt8) == HORO_INT8_BLOCKS);
  const auto kind = static_cast<int>(options.compression);
  HORO_CHECK(kind >= HORO_NO_COMPRESSION && kind <= HORO_INT8_BLOCKS,
             "horo_gradient_sync_create: compression is " + std::to_string(kind) +
                 "; choose HORO_NO_COMPRESSION, HORO_POWERSGD, HORO_TOP_K or HORO_INT8_BLOCKS");
  return {.kind = static_cast<Kind>(kind),
          .rank = options.compression_rank,
          .fraction = options.compression_fraction};
}

horo::GradientSyncOptions options_of(const horo_gradient_sync_options* given) {
  const auto options = complete(given, HORO_GRADIENT_SYNC_OPTIONS);
  horo::GradientSyncOptions result{
      .name = text_of(options.name),
      .op = op_of(options.op),
      .compression = compression_of(options),
      .reorder = options.reorder != 0,
      .backward_passes_per_step = options.backward_passes_per_step,
      .find_unused = options.find_unused != 0,
      .weighted = options.weighted != 0,
      .check_finite = options.check_finite != 0,
  };
  if (options.bucket_bytes != 0) result.bucket_bytes = options.bucket_bytes;
  if (options.first_bucket_bytes != 0) result.first_bucket_bytes = options.first_bucket_bytes;
  if (options.wire != HORO_FLOAT32) result.wire = type_of(options.wire);
  if (options.clip_norm != 0) result.clip_norm = options.clip_norm;
  return result;
}

horo::GradientSync& sync_of(horo_gradient_sync* sync, const char* function) {
  return required(sync, function, "sync").sync;
}

}  // namespace

extern "C" {

horo_status horo_gradient_sync_create(horo_context* context, const horo_tensor* gradients,
                                      size_t count, const horo_gradient_sync_options* options,
                                      horo_gradient_sync** sync) {
  constexpr auto kFunction = "horo_gradient_sync_create";
  return guarded([&] {
    horo_gradient_sync*& result = required(sync, kFunction, "sync");
    horo::Context& job = required(context, kFunction, "context").get();
    result = new horo_gradient_sync{
        horo::GradientSync(job, named(gradients, count), options_of(options)), {}};
  });
}

horo_status horo_gradient_sync_ready(horo_gradient_sync* sync, size_t index) {
  return guarded([&] { sync_of(sync, "horo_gradient_sync_ready").ready(index); });
}
horo_status horo_gradient_sync_ready_on(horo_gradient_sync* sync, size_t index, void* stream) {
  return guarded([&] { sync_of(sync, "horo_gradient_sync_ready_on").ready(index, stream); });
}
horo_status horo_gradient_sync_wait(horo_gradient_sync* sync) {
  return guarded([&] { sync_of(sync, "horo_gradient_sync_wait").wait(); });
}
horo_status horo_gradient_sync_wait_on(horo_gradient_sync* sync, void* stream) {
  return guarded([&] { sync_of(sync, "horo_gradient_sync_wait_on").wait_on(stream); });
}
horo_status horo_gradient_sync_exchange(horo_gradient_sync* sync) {
  return guarded([&] { sync_of(sync, "horo_gradient_sync_exchange").exchange(); });
}

horo_status horo_gradient_sync_report(horo_gradient_sync* sync, horo_step_report* report) {
  constexpr auto kFunction = "horo_gradient_sync_report";
  return guarded([&] {
    horo_step_report& to = required(report, kFunction, "report");
    const horo::StepReport& of = sync_of(sync, kFunction).report();
    horo_step_report result = HORO_STEP_REPORT;
    result.was_exchanged = of.was_exchanged ? 1 : 0;
    result.total_weight = of.total_weight;
    result.norm = of.norm;
    result.was_clipped = of.was_clipped ? 1 : 0;
    result.is_finite = of.is_finite ? 1 : 0;
    result.non_finite_rank = of.non_finite ? of.non_finite->rank : -1;
    result.non_finite_gradient = of.non_finite ? of.non_finite->gradient : 0;
    result.non_finite_index = of.non_finite ? of.non_finite->index : 0;
    give(result, to);
  });
}

horo_status horo_gradient_sync_begin_no_sync(horo_gradient_sync* sync) {
  return guarded([&] {
    auto& of = sync_of(sync, "horo_gradient_sync_begin_no_sync");
    sync->pauses.push_back(std::unique_ptr<horo_no_sync>(new horo_no_sync{of.no_sync()}));
  });
}
horo_status horo_gradient_sync_end_no_sync(horo_gradient_sync* sync) {
  constexpr auto kFunction = "horo_gradient_sync_end_no_sync";
  return guarded([&] {
    auto& pauses = required(sync, kFunction, "sync").pauses;
    HORO_CHECK(!pauses.empty(),
               "horo_gradient_sync_end_no_sync: call horo_gradient_sync_begin_no_sync() first");
    pauses.pop_back();
  });
}

horo_status horo_gradient_sync_set_weight(horo_gradient_sync* sync, double weight) {
  return guarded([&] { sync_of(sync, "horo_gradient_sync_set_weight").set_weight(weight); });
}

horo_status horo_gradient_sync_join(horo_gradient_sync* sync, void (*after_step)(void* user),
                                    void* user, int* last_rank) {
  return guarded([&] {
    const int last = sync_of(sync, "horo_gradient_sync_join").join([&](const horo::StepReport&) {
      if (after_step != nullptr) after_step(user);
    });
    if (last_rank != nullptr) *last_rank = last;
  });
}

horo_status horo_gradient_sync_update(horo_gradient_sync* sync, const horo_tensor* gradients,
                                      size_t count) {
  return guarded(
      [&] { sync_of(sync, "horo_gradient_sync_update").update(named(gradients, count)); });
}

horo_status horo_gradient_sync_unused(const horo_gradient_sync* sync, const size_t** indices,
                                      size_t* count) {
  constexpr auto kFunction = "horo_gradient_sync_unused";
  return guarded([&] {
    const auto& unused = required(sync, kFunction, "sync").sync.unused();
    required(indices, kFunction, "indices") = unused.data();
    required(count, kFunction, "count") = unused.size();
  });
}

size_t horo_gradient_sync_bucket_count(const horo_gradient_sync* sync) {
  return sync == nullptr ? 0 : sync->sync.bucket_count();
}

int horo_gradient_sync_is_in_place(const horo_gradient_sync* sync, size_t bucket) {
  if (sync == nullptr || bucket >= sync->sync.bucket_count()) return 0;
  return sync->sync.is_in_place(bucket) ? 1 : 0;
}

void horo_gradient_sync_destroy(horo_gradient_sync* sync) { delete sync; }

}  // extern "C"
