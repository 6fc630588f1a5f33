#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace horo {

class Runtime;

/// A stretch of a rank's time with a name: begun by Context::phase() or Context::pause(), ended by
/// end() or with the object. Those of a rank nest: what began last ends first. Like a GradientSync
/// it keeps the rank's memory and channels, so it must go before the program ends MPI itself.
class Phase {
 public:
  enum class Kind : std::uint8_t { kPhase, kPause };

  Phase(std::shared_ptr<Runtime> runtime, Kind kind, std::string_view name);
  Phase(Phase&& other) noexcept;
  Phase& operator=(Phase&& other) noexcept;
  ~Phase();

  /// The phase around it is the current one again. A second call does nothing.
  void end() noexcept;

 private:
  std::shared_ptr<Runtime> runtime_;  // null: ended
  Kind kind_;
  std::uint32_t name_ = 0, outer_ = 0;
  std::int64_t since_ = 0, outer_since_ = 0;
  std::uint64_t measured_ = 0;  // its number there, if HORO_METRICS is on
  std::uint64_t traced_ = 0;    // for a profiler; 0: there is none
};

}  // namespace horo
