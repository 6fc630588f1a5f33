#include "ops/data/datasets/digit_strokes.h"

#include <array>

#include "horo/base/error.h"

namespace horo::ops {

namespace {

// The strokes of each digit in the unit box, in several styles. x grows to the right and y
// downwards.
Stroke curve(std::vector<Point> points) { return {Stroke::Kind::kCurve, std::move(points)}; }
Stroke lines(std::vector<Point> points) { return {Stroke::Kind::kLines, std::move(points)}; }

using Styles = std::vector<DigitStyle>;

Styles zero() {
  return {
      {curve({{.50f, .02f},
              {.22f, .18f},
              {.14f, .50f},
              {.24f, .84f},
              {.50f, .98f},
              {.77f, .83f},
              {.86f, .50f},
              {.77f, .17f},
              {.50f, .02f}})},
      {curve({{.55f, .03f},
              {.33f, .25f},
              {.28f, .60f},
              {.38f, .92f},
              {.55f, .95f},
              {.70f, .70f},
              {.72f, .32f},
              {.55f, .03f}})},
      {curve({{.62f, .06f},
              {.36f, .10f},
              {.16f, .42f},
              {.20f, .80f},
              {.46f, .96f},
              {.76f, .80f},
              {.84f, .44f},
              {.68f, .14f},
              {.44f, .04f}})},
  };
}

Styles one() {
  return {
      {lines({{.50f, .02f}, {.50f, .98f}})},
      {lines({{.30f, .22f}, {.54f, .03f}, {.54f, .98f}})},
      {lines({{.30f, .22f}, {.52f, .03f}, {.52f, .96f}}), lines({{.28f, .96f}, {.76f, .96f}})},
  };
}

Styles two() {
  return {
      {curve({{.18f, .26f},
              {.30f, .07f},
              {.58f, .03f},
              {.78f, .20f},
              {.72f, .44f},
              {.46f, .70f},
              {.16f, .95f}}),
       lines({{.16f, .95f}, {.84f, .95f}})},
      {curve({{.20f, .20f},
              {.46f, .03f},
              {.74f, .16f},
              {.74f, .42f},
              {.52f, .72f},
              {.28f, .94f},
              {.16f, .84f},
              {.30f, .74f},
              {.56f, .86f},
              {.86f, .94f}})},
      {lines({{.20f, .08f}, {.74f, .08f}, {.22f, .94f}, {.82f, .92f}})},
  };
}

Styles three() {
  return {
      {curve({{.20f, .14f}, {.46f, .02f}, {.74f, .14f}, {.70f, .36f}, {.42f, .47f}}),
       curve({{.42f, .47f}, {.74f, .56f}, {.80f, .78f}, {.52f, .97f}, {.18f, .86f}})},
      {lines({{.20f, .06f}, {.78f, .06f}, {.44f, .42f}}),
       curve({{.44f, .42f}, {.74f, .50f}, {.80f, .74f}, {.54f, .96f}, {.18f, .88f}})},
      {curve({{.26f, .08f},
              {.58f, .04f},
              {.72f, .22f},
              {.50f, .44f},
              {.40f, .50f},
              {.66f, .56f},
              {.78f, .76f},
              {.54f, .96f},
              {.22f, .92f}})},
  };
}

Styles four() {
  return {
      {lines({{.30f, .04f}, {.18f, .56f}, {.86f, .56f}}), lines({{.66f, .20f}, {.62f, .98f}})},
      {lines({{.62f, .98f}, {.62f, .04f}, {.12f, .66f}, {.88f, .66f}})},
      {curve({{.24f, .06f}, {.18f, .36f}, {.34f, .52f}, {.74f, .46f}}),
       lines({{.76f, .06f}, {.72f, .98f}})},
  };
}

Styles five() {
  return {
      {lines({{.80f, .05f}, {.28f, .05f}, {.24f, .44f}}),
       curve({{.24f, .44f}, {.52f, .36f}, {.80f, .54f}, {.76f, .82f}, {.48f, .97f}, {.16f, .88f}})},
      {curve({{.78f, .06f},
              {.40f, .08f},
              {.26f, .26f},
              {.40f, .44f},
              {.68f, .58f},
              {.72f, .82f},
              {.46f, .97f},
              {.18f, .90f}})},
      {lines({{.30f, .06f}, {.26f, .46f}}),
       curve({{.26f, .46f}, {.58f, .38f}, {.80f, .62f}, {.62f, .92f}, {.20f, .94f}}),
       lines({{.30f, .07f}, {.84f, .03f}})},
  };
}

Styles six() {
  return {
      {curve({{.70f, .04f},
              {.40f, .22f},
              {.22f, .56f},
              {.26f, .86f},
              {.52f, .97f},
              {.76f, .82f},
              {.72f, .60f},
              {.48f, .52f},
              {.24f, .70f}})},
      {curve({{.44f, .02f},
              {.28f, .36f},
              {.22f, .72f},
              {.42f, .96f},
              {.70f, .88f},
              {.72f, .64f},
              {.46f, .56f},
              {.24f, .76f}})},
      {curve({{.80f, .12f},
              {.54f, .04f},
              {.26f, .28f},
              {.18f, .66f},
              {.38f, .95f},
              {.70f, .92f},
              {.82f, .70f},
              {.62f, .50f},
              {.34f, .56f},
              {.20f, .72f}})},
  };
}

Styles seven() {
  return {
      {lines({{.16f, .07f}, {.82f, .07f}, {.42f, .98f}})},
      {lines({{.16f, .07f}, {.82f, .07f}, {.42f, .98f}}), lines({{.36f, .50f}, {.78f, .48f}})},
      {lines({{.20f, .22f}, {.22f, .08f}, {.80f, .06f}}),
       curve({{.80f, .06f}, {.62f, .36f}, {.50f, .66f}, {.46f, .98f}})},
  };
}

Styles eight() {
  return {
      {curve({{.70f, .12f},
              {.44f, .03f},
              {.24f, .20f},
              {.42f, .42f},
              {.66f, .56f},
              {.78f, .80f},
              {.50f, .97f},
              {.22f, .80f},
              {.36f, .56f},
              {.64f, .40f},
              {.74f, .20f},
              {.62f, .08f}})},
      {curve({{.50f, .03f},
              {.28f, .14f},
              {.28f, .34f},
              {.50f, .46f},
              {.72f, .34f},
              {.72f, .14f},
              {.50f, .03f}}),
       curve({{.50f, .46f},
              {.22f, .60f},
              {.22f, .86f},
              {.50f, .97f},
              {.78f, .86f},
              {.78f, .60f},
              {.50f, .46f}})},
  };
}

Styles nine() {
  return {
      {curve({{.74f, .24f}, {.54f, .04f}, {.26f, .16f}, {.26f, .40f}, {.52f, .50f}, {.74f, .28f}}),
       lines({{.75f, .20f}, {.70f, .98f}})},
      {curve({{.76f, .20f},
              {.50f, .03f},
              {.24f, .20f},
              {.30f, .44f},
              {.58f, .46f},
              {.76f, .22f},
              {.76f, .54f},
              {.66f, .84f},
              {.40f, .97f},
              {.22f, .86f}})},
      {curve({{.70f, .10f},
              {.42f, .06f},
              {.22f, .26f},
              {.40f, .46f},
              {.66f, .34f},
              {.74f, .12f},
              {.66f, .50f},
              {.46f, .97f}})},
  };
}

// A Catmull-Rom spline: it passes through all points, and its tangent at a point depends only on
// the neighbours of the point.
Point spline_point(const Point& before, const Point& from, const Point& to, const Point& after,
                   float t) {
  const auto coordinate = [t](float a, float b, float c, float d) {
    return 0.5f * (2.0f * b + (c - a) * t + (2.0f * a - 5.0f * b + 4.0f * c - d) * t * t +
                   (3.0f * b - a - 3.0f * c + d) * t * t * t);
  };
  return {coordinate(before.x, from.x, to.x, after.x), coordinate(before.y, from.y, to.y, after.y)};
}

}  // namespace

std::span<const DigitStyle> styles_of_digit(int digit) {
  static const std::array<Styles, 10> kStyles{zero(), one(), two(),   three(), four(),
                                              five(), six(), seven(), eight(), nine()};
  HORO_CHECK(digit >= 0 && digit <= 9, "a digit is 0 to 9, not " + std::to_string(digit));
  return kStyles[static_cast<std::size_t>(digit)];
}

std::vector<Point> trace_stroke(const Stroke& stroke) {
  constexpr int kPieces = 5;
  const auto& points = stroke.points;
  if (stroke.kind == Stroke::Kind::kLines || points.size() < 3) return points;
  std::vector<Point> path{points.front()};
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const Point& before = points[i > 0 ? i - 1 : i];
    const Point& after = points[i + 2 < points.size() ? i + 2 : i + 1];
    for (int piece = 1; piece <= kPieces; ++piece)
      path.push_back(spline_point(before, points[i], points[i + 1], after,
                                  static_cast<float>(piece) / kPieces));
  }
  return path;
}

}  // namespace horo::ops
