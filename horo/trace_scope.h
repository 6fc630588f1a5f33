#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace horo {

class Runtime;

/// A named span of one rank's time. Context::phase() and Context::pause() begin one; end() or the
/// destructor ends it. Scopes of a rank nest: the one that began last must end first. A scope keeps
/// the rank's runtime alive, so destroy it before the program calls MPI_Finalize. Not thread-safe.
class TraceScope {
 public:
  enum class Kind : std::uint8_t { kPhase, kPause };

  TraceScope(std::shared_ptr<Runtime> runtime, Kind kind, std::string_view name);
  TraceScope(TraceScope&& other) noexcept;
  TraceScope& operator=(TraceScope&& other) noexcept;
  ~TraceScope();

  /// Ends the span; the enclosing span is current again. A second call has no effect.
  void end() noexcept;

 private:
  std::shared_ptr<Runtime> runtime_;  // null: ended
  Kind kind_;
  std::uint32_t name_ = 0, outer_ = 0;
  std::int64_t since_ = 0, outer_since_ = 0;
  std::uint64_t measured_ = 0;  // the span's id in the metrics, if HORO_METRICS is on
  std::uint64_t traced_ = 0;    // the span's id in the attached profiler; 0: no profiler
};

/// The former name of TraceScope.
using Phase = TraceScope;

}  // namespace horo
