#include "ops/data/datasets/digit_renderer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/data/datasets/digit_strokes.h"
#include "ops/data/random_stream.h"

namespace horo::ops {

namespace {

constexpr float kSide = static_cast<float>(kDigitSide);

/// Maps the unit box of a digit onto the image, in pixels.
class Placement {
 public:
  explicit Placement(RandomStream& random) {
    const float angle = random.uniform(-0.35f, 0.35f);
    const float shear = random.uniform(-0.30f, 0.30f);
    const float width = random.uniform(11.0f, 18.0f);
    const float height = random.uniform(15.0f, 21.0f);
    xx_ = width * std::cos(angle);
    yx_ = width * std::sin(angle);
    xy_ = height * (-std::sin(angle) + shear * std::cos(angle));
    yy_ = height * (std::cos(angle) + shear * std::sin(angle));
    center_ = {kSide / 2 + random.uniform(-2.5f, 2.5f), kSide / 2 + random.uniform(-2.5f, 2.5f)};
  }

  Point operator()(const Point& point) const {
    const float x = point.x - 0.5f;
    const float y = point.y - 0.5f;
    return {center_.x + xx_ * x + xy_ * y, center_.y + yx_ * x + yy_ * y};
  }

 private:
  float xx_, xy_, yx_, yy_;
  Point center_;
};

/// A round pen, in pixels: full ink up to `radius` from its path, fading to none over `softness`.
struct Pen {
  float radius;
  float softness;
  float ink;
};

float distance_to_piece(const Point& point, const Point& from, const Point& to) {
  const float dx = to.x - from.x;
  const float dy = to.y - from.y;
  const float length_squared = dx * dx + dy * dy;
  float along = length_squared > 0.0f
                    ? ((point.x - from.x) * dx + (point.y - from.y) * dy) / length_squared
                    : 0.0f;
  along = std::clamp(along, 0.0f, 1.0f);
  return std::hypot(point.x - from.x - along * dx, point.y - from.y - along * dy);
}

/// Ink on paper, 0 to 1 per pixel.
class Canvas {
 public:
  void draw_piece(const Point& from, const Point& to, const Pen& pen) {
    const float reach = pen.radius + pen.softness;
    const auto [left, right] =
        pixels_between(std::min(from.x, to.x) - reach, std::max(from.x, to.x) + reach);
    const auto [top, bottom] =
        pixels_between(std::min(from.y, to.y) - reach, std::max(from.y, to.y) + reach);
    for (int row = top; row < bottom; ++row) {
      for (int column = left; column < right; ++column) {
        const Point center{static_cast<float>(column) + 0.5f, static_cast<float>(row) + 0.5f};
        const float past_edge = distance_to_piece(center, from, to) - pen.radius;
        const float cover = std::clamp(1.0f - past_edge / pen.softness, 0.0f, 1.0f);
        float& pixel =
            ink_[static_cast<std::size_t>(row) * kDigitSide + static_cast<std::size_t>(column)];
        // The maximum, not the sum: pieces of one stroke overlap at their ends and must not become
        // darker there.
        pixel = std::max(pixel, pen.ink * cover);
      }
    }
  }

  /// Adds grain to every pixel and rounds to bytes.
  DigitImage develop(RandomStream& random, float grain) const {
    DigitImage image{};
    for (std::size_t i = 0; i < image.size(); ++i) {
      const float value = std::clamp(ink_[i] + grain * random.normal(), 0.0f, 1.0f);
      image[i] = static_cast<std::uint8_t>(std::lround(255.0f * value));
    }
    return image;
  }

 private:
  static std::pair<int, int> pixels_between(float low, float high) {
    return {static_cast<int>(std::clamp(std::floor(low), 0.0f, kSide)),
            static_cast<int>(std::clamp(std::ceil(high), 0.0f, kSide))};
  }

  std::array<float, kDigitSide * kDigitSide> ink_{};
};

}  // namespace

// The order of the draws from `random` must not change: every image would change with it.
DigitImage render_digit(int digit, std::uint64_t key) {
  RandomStream random(key);
  const auto styles = styles_of_digit(digit);
  const DigitStyle& style = styles[random.below(styles.size())];
  const Placement place(random);
  const Pen pen{random.uniform(0.5f, 1.5f), random.uniform(0.6f, 1.4f), random.uniform(0.7f, 1.0f)};
  const float unsteadiness = random.uniform(0.02f, 0.08f);
  const float grain = random.uniform(0.02f, 0.20f);
  Canvas canvas;
  for (Stroke stroke : style) {
    for (Point& point : stroke.points) {
      point.x += unsteadiness * random.normal();
      point.y += unsteadiness * random.normal();
      point = place(point);
    }
    const auto path = trace_stroke(stroke);
    for (std::size_t i = 0; i + 1 < path.size(); ++i) canvas.draw_piece(path[i], path[i + 1], pen);
  }
  return canvas.develop(random, grain);
}

}  // namespace horo::ops
