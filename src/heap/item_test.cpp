#include "heap/item.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tandem {
namespace {

// Every field keeps its value, whatever its neighbours hold.
template <class... Fields>
void expect_independent() {
  const unsigned bits = (Fields::width + ...);
  EXPECT_EQ(bits, 64u);
  const std::uint64_t full = (Fields::mask | ...);
  EXPECT_EQ(full, ~std::uint64_t{0});
  (
      [] {
        const std::uint64_t cleared = Fields::put(~std::uint64_t{0}, 0);
        EXPECT_EQ(cleared, ~Fields::mask);
        EXPECT_EQ(Fields::put(0, Fields::limit), Fields::mask);
        EXPECT_EQ(Fields::put(0, ~std::uint64_t{0}), Fields::mask);  // excess bits are cut off
        EXPECT_EQ(Fields::get(Fields::put(cleared, Fields::limit - 1)), Fields::limit - 1);
      }(),
      ...);
}

TEST(Item, StateWordFieldsDoNotOverlap) {
  expect_independent<word::State, word::Accessed, word::Fetched, word::Stale, word::Win, word::AccessS, word::CasHigh,
                     word::ExpiryS>();
}

TEST(Item, FixedWordFieldsDoNotOverlap) {
  expect_independent<word::KeyBytes, word::ValueBytes, word::HasFlags, word::Huge, word::BinaryKey, word::CasLow>();
}

TEST(Item, CasSurvivesTheSplit) {
  Item item{};
  for (const std::uint64_t cas :
       {std::uint64_t{0}, std::uint64_t{1}, word::CasLow::limit, word::CasLow::limit + 1, cas_limit}) {
    item.set_fixed(word::CasLow::put(word::KeyBytes::put(0, 17), cas & word::CasLow::limit));
    const std::uint64_t state = word::CasHigh::put(word::ExpiryS::put(0, 99), cas >> word::CasLow::width);
    EXPECT_EQ(item.cas(state), cas);
    EXPECT_EQ(item.key_bytes(), 17u);
    EXPECT_EQ(Item::expiry_of(state), 99u);
  }
}

TEST(Item, LayoutWithAndWithoutFlags) {
  alignas(granule_bytes) char bytes[64] = {};
  Item* item = reinterpret_cast<Item*>(bytes);
  item->set_fixed(word::ValueBytes::put(word::KeyBytes::put(0, 3), 5));
  std::memcpy(bytes + 16, "keyvalue", 8);
  EXPECT_EQ(item->key(), "key");
  EXPECT_EQ(std::string_view(item->value(), item->small_value_bytes()), "value");
  EXPECT_EQ(item->client_flags(), 0u);

  item->set_fixed(word::HasFlags::put(item->fixed(), 1));
  const std::uint32_t flags = 0xfedcba98;
  std::memcpy(bytes + 16, &flags, sizeof flags);
  std::memcpy(bytes + 20, "keyvalue", 8);
  EXPECT_EQ(item->key(), "key");
  EXPECT_EQ(std::string_view(item->value(), item->small_value_bytes()), "value");
  EXPECT_EQ(item->client_flags(), flags);
}

TEST(Item, TotalBytesCountsFlagsOnlyWhenThereAreAny) {
  EXPECT_EQ(Item::total_bytes(0, 8, 8), 32u);
  EXPECT_EQ(Item::total_bytes(7, 8, 8), 36u);
  EXPECT_EQ(Item::total_bytes(0, 250, std::uint64_t{1} << 30), 16 + 250 + (std::uint64_t{1} << 30));
}

}  // namespace
}  // namespace tandem
