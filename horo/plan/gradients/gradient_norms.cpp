#include "horo/plan/gradients/gradient_norms.h"

#include <cstring>

#include "collectives/agreement.h"

namespace horo::plan {
namespace {

/// A non-finite value in a gradient of `rank`. `rank` is -1 if the value is in the reduced
/// gradient, or if there is no such value. The ranks exchange the bytes of this struct.
struct Source {
  std::int64_t rank = -1;
  GradientMemory::NonFinite found;
};

}  // namespace

GradientNorms::GradientNorms(std::span<const NamedTensor> gradients, const NormOptions& options,
                             const Topology& topology)
    : options_(options), topology_(topology) {
  for (const NamedTensor& gradient : gradients) names_.push_back(gradient.name);
}

void GradientNorms::before_bucket(const StepExchange& step, BucketExchange& bucket) {
  if (options_.check_finite && step.has_data) step.memory->examine_own(bucket.gradients);
}

void GradientNorms::after_bucket(const StepExchange& step, const BucketExchange& bucket) {
  step.memory->examine_reduced(bucket.gradients);
}

// All decisions depend only on the reduced values and the options, so all ranks call find_source(),
// which is collective, or none does.
void GradientNorms::complete(StepExchange& step) {
  const GradientMemory::Findings findings = step.memory->findings();
  step.report.norm = findings.norm;
  step.report.was_clipped = findings.was_clipped;
  step.report.is_finite = !findings.reduced;
  if (findings.reduced && options_.check_finite)
    step.report.non_finite = find_source(findings, step.collectives);
}

// Collective. Returns the non-finite value of the lowest rank that has found one in its own
// gradients. If no rank has found one, the step itself has produced the value, for example by
// overflow of a sum. In that case, returns the value in the reduced gradients.
StepReport::NonFinite GradientNorms::find_source(const GradientMemory::Findings& findings,
                                                 collectives::Collectives& collectives) const {
  Source first{-1, findings.reduced.value_or(GradientMemory::NonFinite{})};
  Source own;
  if (findings.own) own = {topology_.rank, *findings.own};
  for (const std::vector<std::byte>& bytes :
       collectives::gather_all(std::as_bytes(std::span(&own, 1)), collectives, topology_)) {
    Source source;
    std::memcpy(&source, bytes.data(), sizeof source);
    if (source.rank < 0) continue;
    first = source;
    break;
  }
  return {static_cast<int>(first.rank), first.found.gradient, names_[first.found.gradient],
          first.found.index, first.found.value};
}

}  // namespace horo::plan
