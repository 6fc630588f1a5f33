#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/device/fused_layout.h"
#include "collectives/device/gradient_values.h"
#include "horo/base/tensor_view.h"
#include "horo/device/device.h"
#include "horo/plan/bucket_plan.h"
#include "horo/plan/gradients/gradient_memory.h"

namespace horo::plan {

/// The values of gradients in the memory of a device. All work is on two streams: that before the
/// exchange of a bucket on before(), and that after the exchange on after(). The caller orders the
/// streams with the marks and with the exchanges. A step has 2 launches per bucket, 3 or 4 at the
/// end, and one for each element type to clip. Needs 24 bytes of device memory per tile (8,192
/// elements), and twice this memory if examine_own() is used.
class DeviceGradientMemory : public GradientMemory {
 public:
  /// `device` must outlive this object. `is_metric`: see HostGradientMemory. Throws DeviceError if
  /// the device has too little memory.
  DeviceGradientMemory(device::Device& device, const std::vector<NamedTensor>& gradients,
                       const std::vector<bool>& is_metric, const BucketPlan& plan);
  /// Waits for the work.
  ~DeviceGradientMemory() override;

  device::Stream& before() { return *before_; }
  device::Stream& after() { return *after_; }

  void begin_step() override;
  void examine_own(const std::vector<std::size_t>& gradients) override;
  void examine_reduced(const std::vector<std::size_t>& gradients) override;
  void clip(std::optional<double> max_norm) override;
  void set_zero() override;
  Findings findings() override;

  /// Sets the values of `gradients` to zero before their exchange.
  void set_zero_before(const std::vector<std::size_t>& gradients);

 private:
  /// The tables of one bucket, and the number of its first tile.
  struct Tables {
    collectives::FusedLayout layout;
    std::size_t first_tile;
  };
  /// The findings of one pass over the gradients.
  struct Pass {
    collectives::ValueFindings *of_tiles, *of_tensors;
  };

  void add_bucket(const std::vector<std::size_t>& members);
  void allocate(const std::vector<bool>& is_metric);
  void examine(device::Stream& stream, const Pass& pass, std::size_t bucket);
  std::size_t bucket_of(const std::vector<std::size_t>& gradients) const {
    return bucket_of_[gradients.front()];
  }

  device::Device& device_;
  const std::vector<NamedTensor> gradients_;
  const std::vector<std::size_t> bucket_of_;
  std::vector<Tables> buckets_;
  std::vector<collectives::FusedLayout> clipped_;  // one for each type; without metrics
  std::vector<collectives::TilesOfTensor> tiles_;  // one for each gradient
  std::size_t tile_count_ = 0;
  device::Memory memory_;  // the arrays of the device
  device::Memory pinned_;  // the verdicts of the latest two steps
  const collectives::TilesOfTensor* tiles_on_device_ = nullptr;
  Pass own_{}, reduced_{};
  collectives::GradientVerdict* verdict_ = nullptr;
  std::unique_ptr<device::Event> ended_;  // after the latest clip()
  std::size_t step_ = 0;
  bool has_examined_own_ = false, has_examined_reduced_ = false;
  bool is_empty_ = true;  // whether the latest clip() had nothing to examine
  std::unique_ptr<device::Stream> before_, after_;  // destroyed first
};

}  // namespace horo::plan
