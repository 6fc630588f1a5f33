#include "horo/gradient_sync.h"

#include <fmt/format.h>

#include "horo/gradient_sync_impl.h"

namespace horo {

GradientSync::GradientSync(Context& context, std::span<const NamedTensor> gradients,
                           const GradientSyncOptions& options) {
  coordinator::forbid_blocking_in_callbacks();
  impl_ = std::make_unique<Impl>(context, gradients, options);
}
GradientSync::GradientSync(GradientSync&&) noexcept = default;
GradientSync& GradientSync::operator=(GradientSync&&) noexcept = default;
GradientSync::~GradientSync() = default;

void GradientSync::ready(std::size_t index) { impl_->ready(index); }
void GradientSync::ready(std::size_t index, const ConstTensorView& gradient) {
  impl_->ready(index, gradient);
}
const StepReport& GradientSync::wait() {
  impl_->require_may_wait();
  return impl_->wait();
}

const StepReport& GradientSync::exchange() {
  impl_->require_may_wait();
  return impl_->exchange();
}

GradientSync::NoSync::NoSync(GradientSync& sync) : impl_(sync.impl_.get()) {
  impl_->begin_no_sync();
}
GradientSync::NoSync::~NoSync() { impl_->end_no_sync(); }
GradientSync::NoSync GradientSync::no_sync() { return NoSync(*this); }

void GradientSync::set_weight(double weight) { impl_->set_weight(weight); }
int GradientSync::join(const std::function<void(const StepReport&)>& after_step) {
  impl_->require_may_wait();
  return impl_->join(after_step);
}
const std::vector<std::size_t>& GradientSync::unused() const { return impl_->unused(); }
std::vector<std::vector<std::size_t>> GradientSync::unused_by_rank() const {
  impl_->require_may_wait();
  return impl_->gather_unused();
}
void GradientSync::update(std::span<const NamedTensor> gradients) {
  impl_->require_may_wait();
  impl_->update(gradients);
}

std::size_t GradientSync::bucket_count() const { return impl_->runner().plan().buckets.size(); }
bool GradientSync::is_tuning() const { return impl_->is_tuning(); }
WireReport GradientSync::wire_report() const { return impl_->runner().wire_report(); }
CompressionReport GradientSync::compression_report() const {
  return impl_->runner().compressed().report();
}
std::vector<std::byte> GradientSync::save_compression_state() const {
  return impl_->save_compression_state();
}
void GradientSync::load_compression_state(std::span<const std::byte> state) {
  impl_->require_may_wait();
  impl_->load_compression_state(state);
}
bool GradientSync::is_in_place(std::size_t bucket) const {
  HORO_CHECK(bucket < bucket_count(),
             fmt::format("bucket {} of {} does not exist", bucket, bucket_count()));
  return impl_->runner().is_mapped(bucket);
}
const std::vector<std::size_t>& GradientSync::bucket(std::size_t bucket) const {
  HORO_CHECK(bucket < bucket_count(),
             fmt::format("bucket {} of {} does not exist", bucket, bucket_count()));
  return impl_->runner().plan().buckets[bucket];
}

}  // namespace horo
