#pragma once

#include <span>
#include <vector>

namespace horo::ops {

/// A point of a digit's unit box: x to the right, y downwards, both about 0 ... 1.
struct Point {
  float x = 0.0f;
  float y = 0.0f;
};

/// One movement of the pen through `points`, in a smooth curve or in straight lines.
struct Stroke {
  enum class Kind { kCurve, kLines };
  Kind kind = Kind::kCurve;
  std::vector<Point> points;
};

/// One way of writing a digit.
using DigitStyle = std::vector<Stroke>;

/// The ways in which `digit` (0 ... 9) is written; at least one.
std::span<const DigitStyle> styles_of_digit(int digit);

/// The pen's path as straight pieces: a curve becomes a Catmull-Rom spline of several pieces per
/// pair of points, lines stay as they are. At least as many points as the stroke has.
std::vector<Point> trace_stroke(const Stroke& stroke);

}  // namespace horo::ops
