#include <cfloat>
#include <cmath>

#include "horo/device/block_reduction.h"
#include "ops/backend/device/fast_math.h"
#include "ops/backend/device/losses.h"
#include "ops/backend/device/pieces.h"

namespace horo::ops::device_kernels {
namespace {

/// The partial result for a subset of the logits of a row.
struct Scan {
  float largest;
  float sum;            // of e^(logit - largest)
  std::uint32_t place;  // of the largest, the first of equals
  float total;          // sum of the logits
};

/// CrossEntropyOptions for a kernel.
struct TargetRule {
  float of_label, of_each;  // the target distribution: of the label in addition to each class
  std::int32_t ignored;
  bool has_ignored;

  HORO_KERNEL bool ignores(std::int32_t label) const { return has_ignored && label == ignored; }
};

// The combination is associative up to rounding, and BlockReduction fixes its order. It lets one
// pass find the largest logit and the sum of exponentials.
struct JoinScans {
  HORO_KERNEL static Scan combine(const Scan& a, const Scan& b) {
    const bool is_first = a.largest > b.largest || (a.largest == b.largest && a.place < b.place);
    const float largest = is_first ? a.largest : b.largest;
    return {largest, a.sum * fast_exp(a.largest - largest) + b.sum * fast_exp(b.largest - largest),
            is_first ? a.place : b.place, a.total + b.total};
  }
};

/// Each block handles one row.
template <typename T, unsigned kThreadCount>
struct ScoreRows {
  static constexpr unsigned kThreads = kThreadCount;
  static constexpr unsigned kPhases = 3;
  static constexpr unsigned kCount = kPerVector<T>;
  struct Shared {
    device::BlockReduction<Scan, kThreads, JoinScans> scan;
  };
  struct Own {
    float label_logit = 0;  // read before it may be overwritten
  };

  const T* logits;
  const std::int32_t* labels;
  T* gradient;
  RowScore* row_scores;
  std::size_t classes;
  float gradient_factor;
  const float* loss_scale;
  TargetRule rule;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own& own) const {
    const T* row = logits + place.block * classes;
    const auto label = static_cast<std::uint32_t>(labels[place.block]);
    if constexpr (kPhase == 0) {
      if (place.thread == 0 && label < classes) own.label_logit = device::widen(row[label]);
      shared.scan.give(place.thread, scan(row, place.thread));
    }
    if constexpr (kPhase == 1) shared.scan.combine(place.thread);
    if constexpr (kPhase == 2) {
      const Scan scan = shared.scan.result();
      const bool is_ignored = rule.ignores(labels[place.block]);
      if (place.thread == 0)
        row_scores[place.block] =
            is_ignored ? RowScore{0, 0, 0} : score(scan, label, own.label_logit);
      if (gradient == nullptr) return;
      T* const to = gradient + place.block * classes;
      if (is_ignored)
        clear(to, place.thread);
      else
        write_gradient(to, row, scan, label, place.thread);
    }
  }

 private:
  HORO_KERNEL Scan scan(const T* row, unsigned thread) const {
    Scan all{-FLT_MAX, 0, 0xffffffffu, 0};
    for_each_piece<kCount>(0, classes, device::is_vector_aligned(row), thread, kThreads,
                           [&](auto piece, std::size_t at) { add_piece(piece, all, row, at); });
    return all;
  }
  template <unsigned kSize>
  HORO_KERNEL void add_piece(Piece<kSize>, Scan& all, const T* row, std::size_t at) const {
    float x[kSize];
    load_piece(x, row + at);
    const float before = all.largest;
    for (unsigned i = 0; i < kSize; ++i) {
      if (!(x[i] > all.largest)) continue;
      all.largest = x[i];
      all.place = static_cast<std::uint32_t>(at + i);
    }
    float sum = all.sum * fast_exp(before - all.largest);
    for (unsigned i = 0; i < kSize; ++i) sum += fast_exp(x[i] - all.largest);
    all.sum = sum;
    if (rule.of_each > 0)
      for (unsigned i = 0; i < kSize; ++i) all.total += x[i];
  }
  HORO_KERNEL RowScore score(const Scan& scan, std::uint32_t label, float label_logit) const {
    float loss = std::log(scan.sum) - rule.of_label * (label_logit - scan.largest);
    if (rule.of_each > 0)
      loss -= rule.of_each * (scan.total - static_cast<float>(classes) * scan.largest);
    return {label < classes ? loss : NAN, scan.place == label ? 1u : 0u, 1};
  }
  HORO_KERNEL void clear(T* to, unsigned thread) const {
    for (std::size_t i = thread; i < classes; i += kThreads) to[i] = device::narrow<T>(0.0f);
  }

  HORO_KERNEL void write_gradient(T* to, const T* row, const Scan& scan, std::uint32_t label,
                                  unsigned thread) const {
    float factor = gradient_factor;
    if (loss_scale != nullptr) factor *= load_constant(loss_scale);
    if (label >= classes) factor = NAN;
    const float each = factor / scan.sum;
    const bool aligned = device::is_vector_aligned(row) && device::is_vector_aligned(to);
    for_each_piece<kCount>(0, classes, aligned, thread, kThreads, [&](auto piece, std::size_t at) {
      float x[decltype(piece)::kSize];
      load_piece(x, row + at);
      for (unsigned i = 0; i < decltype(piece)::kSize; ++i)
        x[i] = fast_exp(x[i] - scan.largest) * each -
               factor * (at + i == label ? rule.of_label + rule.of_each : rule.of_each);
      store_piece(to + at, x);
    });
  }
};

/// One block adds up the scores of all rows.
struct AddScores {
  static constexpr unsigned kThreads = 256;
  static constexpr unsigned kPhases = 3;
  struct Shared {
    device::BlockReduction<double, kThreads> loss;
    device::BlockReduction<std::uint64_t, kThreads> correct, counted;
  };
  struct Own {};

  const RowScore* row_scores;
  std::size_t rows;
  double normaliser;
  BatchScore* score;
  float* loss;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
    if constexpr (kPhase == 0) {
      BatchScore own;
      for (std::size_t row = place.thread; row < rows; row += kThreads) {
        own.loss += static_cast<double>(row_scores[row].loss);
        own.correct += row_scores[row].correct;
        own.counted += row_scores[row].counted;
      }
      shared.loss.give(place.thread, own.loss);
      shared.correct.give(place.thread, own.correct);
      shared.counted.give(place.thread, own.counted);
    }
    if constexpr (kPhase == 1) {
      shared.loss.combine(place.thread);
      shared.correct.combine(place.thread);
      shared.counted.combine(place.thread);
    }
    if constexpr (kPhase == 2)
      if (place.thread == 0)
        store(
            {shared.loss.result() / normaliser, shared.correct.result(), shared.counted.result()});
  }

 private:
  HORO_KERNEL void store(const BatchScore& result) const {
    *score = result;
    if (loss != nullptr) *loss = static_cast<float>(result.loss);
  }
};

/// Each block handles one row.
template <typename T>
struct SquareRows {
  static constexpr unsigned kThreads = 128;
  static constexpr unsigned kPhases = 3;
  struct Shared {
    device::BlockReduction<double, kThreads> sum;
  };
  struct Own {};

  const T* output;
  const float* targets;
  T* gradient;
  RowScore* row_scores;
  std::size_t columns;
  float gradient_factor;
  const float* loss_scale;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
    if constexpr (kPhase == 0) shared.sum.give(place.thread, square(place));
    if constexpr (kPhase == 1) shared.sum.combine(place.thread);
    if constexpr (kPhase == 2)
      if (place.thread == 0)
        row_scores[place.block] = {static_cast<float>(shared.sum.result()), 0,
                                   static_cast<std::uint32_t>(columns)};
  }

 private:
  HORO_KERNEL double square(const device::ThreadIndex& place) const {
    double sum = 0;
    const float factor =
        loss_scale == nullptr ? gradient_factor : gradient_factor * load_constant(loss_scale);
    for (std::size_t i = place.thread; i < columns; i += kThreads) {
      const std::size_t at = place.block * columns + i;
      const float difference = device::widen(output[at]) - targets[at];
      sum += static_cast<double>(difference) * static_cast<double>(difference);
      if (gradient != nullptr) gradient[at] = device::narrow<T>(factor * difference);
    }
    return sum;
  }
};

TargetRule rule_of(const CrossEntropy& shape) {
  const float each = shape.options.label_smoothing / static_cast<float>(shape.classes);
  return {1 - shape.options.label_smoothing, each, shape.options.ignored.value_or(0),
          shape.options.ignored.has_value()};
}

template <typename T, unsigned kThreads>
void score_rows(device::Stream& stream, const T* logits, const std::int32_t* labels,
                const CrossEntropy& shape, T* gradient, RowScore* row_scores) {
  using Kernel = ScoreRows<T, kThreads>;
  device::launch(
      stream, {static_cast<unsigned>(shape.rows), kThreads},
      Kernel{logits, labels, gradient, row_scores, shape.classes,
             static_cast<float>(1 / shape.normaliser), shape.loss_scale, rule_of(shape)});
}

}  // namespace

template <typename T>
void softmax_cross_entropy(device::Stream& stream, const T* logits, const std::int32_t* labels,
                           const CrossEntropy& shape, T* gradient, RowScore* row_scores,
                           BatchScore* score) {
  // One block per row. The block size grows with the row, because a small row would leave most
  // threads of a large block idle.
  if (shape.classes <= 256)
    score_rows<T, 32>(stream, logits, labels, shape, gradient, row_scores);
  else if (shape.classes <= 8192)
    score_rows<T, 256>(stream, logits, labels, shape, gradient, row_scores);
  else
    score_rows<T, 1024>(stream, logits, labels, shape, gradient, row_scores);
  device::launch(stream, {1, AddScores::kThreads},
                 AddScores{row_scores, shape.rows, shape.normaliser, score, shape.loss});
}

template <typename T>
void squared_error(device::Stream& stream, const T* output, const float* targets,
                   const SquaredError& shape, T* gradient, RowScore* row_scores,
                   BatchScore* score) {
  using Kernel = SquareRows<T>;
  device::launch(stream, {static_cast<unsigned>(shape.rows), Kernel::kThreads},
                 Kernel{output, targets, gradient, row_scores, shape.columns,
                        static_cast<float>(2 / shape.normaliser), shape.loss_scale});
  device::launch(stream, {1, AddScores::kThreads},
                 AddScores{row_scores, shape.rows, shape.normaliser, score, shape.loss});
}

#define HORO_INSTANTIATE(T)                                                                     \
  template void softmax_cross_entropy(device::Stream&, const T*, const std::int32_t*,           \
                                      const CrossEntropy&, T*, RowScore*, BatchScore*);         \
  template void squared_error(device::Stream&, const T*, const float*, const SquaredError&, T*, \
                              RowScore*, BatchScore*);
HORO_INSTANTIATE(float)
HORO_INSTANTIATE(Float16)
HORO_INSTANTIATE(BFloat16)
#undef HORO_INSTANTIATE

}  // namespace horo::ops::device_kernels
