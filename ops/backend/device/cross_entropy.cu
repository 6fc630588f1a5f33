#include <cfloat>
#include <cmath>

#include "horo/device/block_reduction.h"
#include "ops/backend/device/cross_entropy.h"
#include "ops/backend/device/fast_math.h"
#include "ops/backend/device/pieces.h"

namespace horo::ops::device_kernels {
namespace {

/// The partial result for a subset of the logits of a row.
struct Scan {
  float largest;
  float sum;            // of e^(logit - largest)
  std::uint32_t place;  // of the largest, the first of equals
};

// The combination is associative up to rounding, and BlockReduction fixes its order. It lets one
// pass find the largest logit and the sum of exponentials.
struct JoinScans {
  HORO_KERNEL static Scan combine(const Scan& a, const Scan& b) {
    const bool is_first = a.largest > b.largest || (a.largest == b.largest && a.place < b.place);
    const float largest = is_first ? a.largest : b.largest;
    return {largest, a.sum * fast_exp(a.largest - largest) + b.sum * fast_exp(b.largest - largest),
            is_first ? a.place : b.place};
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
      if (place.thread == 0) {
        const float loss = std::log(scan.sum) - (own.label_logit - scan.largest);
        row_scores[place.block] = {label < classes ? loss : NAN, scan.place == label ? 1u : 0u};
      }
      if (gradient != nullptr)
        write_gradient(gradient + place.block * classes, row, scan, label, place.thread);
    }
  }

 private:
  HORO_KERNEL Scan scan(const T* row, unsigned thread) const {
    Scan all{-FLT_MAX, 0, 0xffffffffu};
    for_each_piece<kCount>(0, classes, device::is_vector_aligned(row), thread, kThreads,
                           [&](auto piece, std::size_t at) { add_piece(piece, all, row, at); });
    return all;
  }
  template <unsigned kSize>
  HORO_KERNEL static void add_piece(Piece<kSize>, Scan& all, const T* row, std::size_t at) {
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
        x[i] = fast_exp(x[i] - scan.largest) * each - (at + i == label ? factor : 0);
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
    device::BlockReduction<std::uint64_t, kThreads> correct;
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
      BatchScore own{0, 0};
      for (std::size_t row = place.thread; row < rows; row += kThreads) {
        own.loss += static_cast<double>(row_scores[row].loss);
        own.correct += row_scores[row].correct;
      }
      shared.loss.give(place.thread, own.loss);
      shared.correct.give(place.thread, own.correct);
    }
    if constexpr (kPhase == 1) {
      shared.loss.combine(place.thread);
      shared.correct.combine(place.thread);
    }
    if constexpr (kPhase == 2)
      if (place.thread == 0) say({shared.loss.result() / normaliser, shared.correct.result()});
  }

 private:
  HORO_KERNEL void say(const BatchScore& result) const {
    *score = result;
    if (loss != nullptr) *loss = static_cast<float>(result.loss);
  }
};

template <typename T, unsigned kThreads>
void score_rows(device::Stream& stream, const T* logits, const std::int32_t* labels,
                const CrossEntropy& shape, T* gradient, RowScore* row_scores) {
  using Kernel = ScoreRows<T, kThreads>;
  device::launch(stream, {static_cast<unsigned>(shape.rows), kThreads},
                 Kernel{logits, labels, gradient, row_scores, shape.classes,
                        static_cast<float>(1 / shape.normaliser), shape.loss_scale});
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

#define HORO_INSTANTIATE(T)                                                           \
  template void softmax_cross_entropy(device::Stream&, const T*, const std::int32_t*, \
                                      const CrossEntropy&, T*, RowScore*, BatchScore*);
HORO_INSTANTIATE(float)
HORO_INSTANTIATE(Float16)
HORO_INSTANTIATE(BFloat16)
#undef HORO_INSTANTIATE

}  // namespace horo::ops::device_kernels
