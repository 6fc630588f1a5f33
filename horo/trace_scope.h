#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace horo {

class Runtime;

/// A named span of one rank's time. Context::phase() and Context::pause() begin a span. end() or
/// the destructor ends the span. Scopes of a rank nest: the scope that began last must end first. A
/// scope keeps the rank's runtime alive until it ends. The program must therefore end all scopes
/// before it calls MPI_Finalize. Not thread-safe.
class TraceScope {
 public:
  /// A phase is reported; during a pause, the other ranks also wait without a timeout.
  enum class Kind : std::uint8_t { kPhase, kPause };

  /// For use inside horo. Programs call Context::phase() or Context::pause().
  TraceScope(std::shared_ptr<Runtime> runtime, Kind kind, std::string_view name);
  /// This object ends the span in place of the other one.
  TraceScope(TraceScope&& other) noexcept;
  /// Ends the span of this object first.
  TraceScope& operator=(TraceScope&& other) noexcept;
  ~TraceScope();

  /// Ends the span. The enclosing span is then the current span again. A second call has no effect.
  void end() noexcept;

 private:
  std::shared_ptr<Runtime> runtime_;  // null after end()
  Kind kind_;
  std::uint32_t name_ = 0, outer_ = 0;
  std::int64_t since_ = 0, outer_since_ = 0;
  std::uint64_t measured_ = 0;  // the span's id in the metrics, if HORO_METRICS is on
  std::uint64_t traced_ = 0;    // the span's id in the attached profiler, 0 without a profiler
};

/// The former name of TraceScope.
using Phase = TraceScope;

}  // namespace horo
