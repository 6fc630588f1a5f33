#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "horo/arena.h"
#include "horo/context.h"
#include "horo/gradient_sync.h"
#include "horo/handle.h"
#include "horo/horo_c.h"
#include "horo/open_gpu.h"
#include "horo/process_set.h"
#include "horo/trace_scope.h"

// The objects behind the opaque types of horo_c.h.

struct horo_context {
  /// A job, a process set, or a job that this object borrows.
  std::variant<horo::Context, horo::ProcessSet, horo::Context*> of;

  horo::Context& get() {
    if (auto* const job = std::get_if<horo::Context>(&of)) return *job;
    if (auto* const set = std::get_if<horo::ProcessSet>(&of)) return *set;
    return *std::get<horo::Context*>(of);
  }
  const horo::Context& get() const { return const_cast<horo_context*>(this)->get(); }
  const horo::ProcessSet* set() const { return std::get_if<horo::ProcessSet>(&of); }
};

struct horo_handle {
  horo::Handle handle;
  std::optional<horo::AlltoallHandle> alltoall;
};

struct horo_no_sync {
  horo::GradientSync::NoSync scope;
};

struct horo_gradient_sync {
  horo::GradientSync sync;
  std::vector<std::unique_ptr<horo_no_sync>> pauses;  // innermost last; they end before `sync`
};

struct horo_arena {
  horo::Arena arena;
};

struct horo_scope {
  horo::TraceScope scope;
};

struct horo_device {
  std::shared_ptr<horo::device::Device> device;
};
