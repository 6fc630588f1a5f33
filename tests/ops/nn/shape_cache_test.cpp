#include "ops/nn/shape_cache.h"

#include <gtest/gtest.h>

namespace horo::ops {
namespace {

TEST(ShapeCache, MakesOncePerShapeAndDropsTheLeastRecentlyUsed) {
  ShapeCache<int> cache;
  int made = 0;
  const auto get = [&](std::size_t batch) {
    return cache.get(Shape{batch, 3}, [&] { return std::make_shared<int>(++made); });
  };
  const auto first = get(0);
  for (std::size_t batch = 1; batch < ShapeCache<int>::kCapacity; ++batch) get(batch);
  EXPECT_EQ(made, 8);
  EXPECT_EQ(get(0), first) << "still there";
  get(100);  // evicts 1, the least recently used
  EXPECT_EQ(made, 9);
  EXPECT_EQ(get(0), first);
  EXPECT_EQ(get(2).use_count(), 2);
  EXPECT_EQ(made, 9);
  get(1);
  EXPECT_EQ(made, 10);
}

}  // namespace
}  // namespace horo::ops
