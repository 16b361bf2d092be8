#include "router/hot_model.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "router/router_test_support.hpp"

namespace tandem {
namespace {

std::vector<Fingerprint> fingerprints(std::uint64_t from, std::uint64_t count) {
  std::vector<Fingerprint> all;
  for (std::uint64_t r = from; r < from + count; ++r) all.push_back(DrawnKeys::fingerprint(r));
  return all;
}

TEST(HotModel, HasItsKeysAndNoOthers) {
  const auto hot = fingerprints(0, 16 * 1024);
  const auto model = HotModel::of_keys(hot, 0.25);
  EXPECT_EQ(model->size(), hot.size());
  EXPECT_EQ(model->threshold(), 0.25);
  for (const Fingerprint f : hot) {
    ASSERT_TRUE(model->may_be_hot(f));
    ASSERT_TRUE(model->is_hot(f));
  }
  for (const Fingerprint f : fingerprints(1'000'000, 100'000)) ASSERT_FALSE(model->is_hot(f));
}

TEST(HotModel, FewColdKeysLookHot) {
  const auto model = HotModel::of_keys(fingerprints(0, 16 * 1024));
  unsigned look = 0;
  for (const Fingerprint f : fingerprints(1'000'000, 100'000)) look += model->may_be_hot(f);
  EXPECT_NEAR(look, 1550, 200);  // 1 - exp(-1/64)
}

TEST(HotModel, KeysThatShareAClassAreToldApart) {
  const Fingerprint hot{.signature = 7, .hash = 1};
  const auto model = HotModel::of_keys({&hot, 1});
  EXPECT_TRUE(model->may_be_hot({.signature = 7, .hash = 2}));
  EXPECT_FALSE(model->is_hot({.signature = 7, .hash = 2}));
  EXPECT_FALSE(model->is_hot({.signature = 7 + HotModel::class_count, .hash = 1}));
  EXPECT_FALSE(model->may_be_hot({.signature = 8, .hash = 1}));
}

TEST(HotModel, TakesKeysTwiceAndNone) {
  std::vector<Fingerprint> twice = fingerprints(0, 100);
  twice.insert(twice.end(), twice.begin(), twice.end());
  const auto model = HotModel::of_keys(twice);
  EXPECT_EQ(model->size(), 100);
  const auto none = HotModel::of_keys({});
  EXPECT_EQ(none->size(), 0);
  for (const Fingerprint f : twice) ASSERT_FALSE(none->is_hot(f));
}

TEST(HotModel, MoreKeysThanClasses) {
  const auto hot = fingerprints(0, 2 * HotModel::class_count);
  const auto model = HotModel::of_keys(hot);
  for (const Fingerprint f : hot) ASSERT_TRUE(model->is_hot(f));
  unsigned wrong = 0;
  for (const Fingerprint f : fingerprints(10'000'000, 10'000)) wrong += model->is_hot(f);
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(model->bytes(), HotModel::bytes_for(hot.size()));
}

TEST(HotModel, OfBinsIsHotByWholeBins) {
  std::vector<std::uint8_t> bins(10'000);
  bins[0] = bins[1234] = bins[9999] = 1;
  const auto model = HotModel::of_bins(bins);
  EXPECT_EQ(model->size(), 3);
  for (std::uint32_t c = 0; c < HotModel::class_count; ++c) {
    const bool hot = bins[HotModel::bin_of(c, 10'000)] != 0;
    ASSERT_EQ(model->may_be_hot({.signature = c, .hash = 5}), hot) << c;
    ASSERT_EQ(model->is_hot({.signature = c, .hash = 5}), hot) << c;
  }
}

}  // namespace
}  // namespace tandem
