#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "ops/data/pipeline/prefetched_items.h"
#include "ops/data/random_stream.h"

namespace horo::ops {

/// An iterable data set: a sequence of items that is produced again for each epoch. For data
/// without an index, such as a stream; use Dataset and DataLoader for data with one. Each member
/// function returns a pipeline with one more stage, and evaluates nothing. Items are moved through
/// the stages. An exception of a stage leaves the call that needed the item.
///
///     Pipeline<std::string> lines = ...;
///     auto batches = lines.filter(is_long).shuffle(1000, seed).shard(rank, ranks).batch(32);
///     for (auto next = batches.start(epoch); auto batch = next();) train(*batch);
///
/// Immutable. The functions that are passed must be copyable; several epochs may use them at once.
template <typename T>
class Pipeline {
 public:
  /// One pass over the items: returns the next one, or nothing after the last one. Used from one
  /// thread.
  using Next = std::function<std::optional<T>()>;
  /// Begins a pass. Equal epochs must give equal items.
  using Start = std::function<Next(std::uint64_t epoch)>;

  /// A pipeline of the items that `start` produces.
  explicit Pipeline(Start start) : start_(std::move(start)) {}

  /// Begins a pass.
  Next start(std::uint64_t epoch = 0) const { return start_(epoch); }

  /// The results of `function` for each item.
  template <typename Function>
  auto map(Function function) const;
  /// The items for which `predicate` is true.
  template <typename Predicate>
  Pipeline filter(Predicate predicate) const;
  /// Vectors of `size` items. The last one may have fewer; with `drop_last` it is left out then.
  Pipeline<std::vector<T>> batch(std::size_t size, bool drop_last = false) const;
  /// Takes items in random order from a buffer of `buffer` items. The order depends only on `seed`
  /// and the epoch.
  Pipeline shuffle(std::size_t buffer, std::uint64_t seed) const;
  /// Every `ranks`-th item, beginning with item `rank`. If batches are made after this stage, the
  /// items of a global batch do not depend on the number of ranks.
  Pipeline shard(std::uint64_t rank, std::uint64_t ranks) const;
  /// Leaves out the first `count` items: to continue an epoch at a saved position.
  Pipeline skip(std::uint64_t count) const;
  /// Keeps copies of the items of the first complete pass in memory. Later passes read these, so
  /// stages before this one must not depend on the epoch.
  Pipeline cache() const;
  /// Produces up to `items` items ahead, on a thread of each pass.
  Pipeline prefetch(std::size_t items) const;

 private:
  Start start_;
};

/// @cond definitions
template <typename T>
template <typename Function>
auto Pipeline<T>::map(Function function) const {
  using Result = std::invoke_result_t<Function&, T>;
  return Pipeline<Result>([start = start_, function](std::uint64_t epoch) {
    return [next = start(epoch), function]() mutable -> std::optional<Result> {
      if (auto item = next()) return function(*std::move(item));
      return std::nullopt;
    };
  });
}

template <typename T>
template <typename Predicate>
Pipeline<T> Pipeline<T>::filter(Predicate predicate) const {
  return Pipeline([start = start_, predicate](std::uint64_t epoch) {
    return [next = start(epoch), predicate]() mutable {
      auto item = next();
      while (item && !predicate(std::as_const(*item))) item = next();
      return item;
    };
  });
}

template <typename T>
Pipeline<std::vector<T>> Pipeline<T>::batch(std::size_t size, bool drop_last) const {
  HORO_CHECK(size > 0, "a batch of 0 items; choose at least 1");
  using Items = std::vector<T>;
  return Pipeline<Items>([start = start_, size, drop_last](std::uint64_t epoch) {
    return [next = start(epoch), size, drop_last]() -> std::optional<Items> {
      Items items;
      while (items.size() < size) {
        auto item = next();
        if (!item) break;
        items.push_back(*std::move(item));
      }
      if (items.empty() || (drop_last && items.size() < size)) return std::nullopt;
      return items;
    };
  });
}

template <typename T>
Pipeline<T> Pipeline<T>::shuffle(std::size_t buffer, std::uint64_t seed) const {
  HORO_CHECK(buffer > 0, "a shuffle buffer of 0 items; choose at least 1");
  struct State {
    Next next;
    RandomStream random;
    std::vector<T> items;
    bool is_at_end = false;
  };
  return Pipeline([start = start_, buffer, seed](std::uint64_t epoch) {
    const auto state =
        std::make_shared<State>(State{start(epoch), RandomStream(combine_keys(seed, epoch)), {}});
    return [state, buffer]() -> std::optional<T> {
      while (!state->is_at_end && state->items.size() < buffer) {
        if (auto item = state->next())
          state->items.push_back(*std::move(item));
        else
          state->is_at_end = true;
      }
      if (state->items.empty()) return std::nullopt;
      std::swap(state->items[state->random.below(state->items.size())], state->items.back());
      T item = std::move(state->items.back());
      state->items.pop_back();
      return item;
    };
  });
}

template <typename T>
Pipeline<T> Pipeline<T>::shard(std::uint64_t rank, std::uint64_t ranks) const {
  HORO_CHECK(rank < ranks, "the rank of a shard must be below the number of ranks");
  return Pipeline([start = start_, rank, ranks](std::uint64_t epoch) {
    return [next = start(epoch), leave_out = rank, ranks]() mutable {
      for (; leave_out > 0; --leave_out)
        if (!next()) return std::optional<T>();
      leave_out = ranks - 1;
      return next();
    };
  });
}

template <typename T>
Pipeline<T> Pipeline<T>::skip(std::uint64_t count) const {
  return Pipeline([start = start_, count](std::uint64_t epoch) {
    return [next = start(epoch), leave_out = count]() mutable {
      for (; leave_out > 0; --leave_out)
        if (!next()) return std::optional<T>();
      return next();
    };
  });
}

template <typename T>
Pipeline<T> Pipeline<T>::cache() const {
  // Passes may run at the same time. The first one that completes leaves its copies here.
  struct Store {
    std::mutex mutex;
    std::shared_ptr<const std::vector<T>> items;
  };
  const auto store = std::make_shared<Store>();
  const auto stored = [store] {
    const std::lock_guard lock(store->mutex);
    return store->items;
  };
  return Pipeline([start = start_, store, stored](std::uint64_t epoch) -> Next {
    if (const auto items = stored())
      return [items, at = std::size_t{0}]() mutable {
        return at < items->size() ? std::optional<T>((*items)[at++]) : std::nullopt;
      };
    const auto copies = std::make_shared<std::vector<T>>();
    return [next = start(epoch), store, copies]() mutable {
      auto item = next();
      if (item) {
        copies->push_back(*item);
      } else {
        const std::lock_guard lock(store->mutex);
        store->items = copies;
      }
      return item;
    };
  });
}

template <typename T>
Pipeline<T> Pipeline<T>::prefetch(std::size_t items) const {
  HORO_CHECK(items > 0, "0 items are prefetched; choose at least 1");
  return Pipeline([start = start_, items](std::uint64_t epoch) {
    const auto ahead = std::make_shared<PrefetchedItems<T>>(start(epoch), items);
    return [ahead] { return ahead->next(); };
  });
}
/// @endcond

}  // namespace horo::ops
