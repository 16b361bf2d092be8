// Copies of items that a scan makes: of live ones, as they were.
#include "index/scan_copies.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {
namespace {

constexpr std::size_t slots = 8, slot_granules = 16;

// Items as a heap has them, without one.
class ScanCopiesTest : public testing::Test {
 public:
  struct Order {
    const Location* location;
    Location operator*() const noexcept { return *location; }
    Location at(std::ptrdiff_t further) const noexcept { return location[further]; }
    Order operator+(std::ptrdiff_t further) const noexcept { return {location + further}; }
    bool operator==(const Order&) const = default;
  };

  Item& item(std::size_t slot) { return *items.at(location_of(slot)); }
  static Location location_of(std::size_t slot) { return static_cast<Location>((slot + 1) * slot_granules); }
  void put(std::size_t slot, std::string_view key, std::string_view value, std::uint32_t expiry_s = 0) {
    Item& to = item(slot);
    to.set_fixed(word::CasLow::put(word::ValueBytes::put(word::KeyBytes::put(0, key.size()), value.size()), slot + 1));
    std::memcpy(to.bytes() + sizeof(Item), key.data(), key.size());
    std::memcpy(to.value(), value.data(), value.size());
    set_state(slot, ItemState::live, expiry_s);
  }
  void set_state(std::size_t slot, ItemState state, std::uint32_t expiry_s = 0) {
    item(slot).state_word = word::ExpiryS::put(static_cast<std::uint64_t>(state), expiry_s);
  }
  template <std::ptrdiff_t step, std::ptrdiff_t ahead = 0>
  void add(const std::vector<Location>& locations) {
    const Order begin{step > 0 ? locations.data() : locations.data() + locations.size() - 1};
    ScanCopies::Adder adder(copies, items);
    adder.add_all<step, ahead>(begin, begin + step * static_cast<std::ptrdiff_t>(locations.size()));
  }
  std::string copied(std::uint32_t i) const {
    const std::uint64_t fixed = copies.version(i).fixed;
    return {copies.places()[i][0] + sizeof(Item), ScanCopies::body_bytes(fixed)};
  }

  alignas(granule_bytes) std::array<char, (slots + 1) * slot_granules * granule_bytes> memory{};
  const Heap::Items items{memory.data()};
  ScanCopies copies{slots};
};

TEST_F(ScanCopiesTest, HaveTheBytesOfItemsOfAllLengths) {
  put(0, "a", "1");
  put(1, "b", "2");
  put(2, "cc", std::string(60, 'x'));
  put(3, "d", std::string(111, 'y'));  // 128 bytes with its header
  put(4, "e", "5", 77);
  add<1>({location_of(0), location_of(1), no_location, location_of(2), location_of(3), location_of(4)});
  ASSERT_EQ(copies.count(), 5u);
  EXPECT_EQ(copied(0), "a1");
  EXPECT_EQ(copied(1), "b2");
  EXPECT_EQ(copied(2), "cc" + std::string(60, 'x'));
  EXPECT_EQ(copied(3), "d" + std::string(111, 'y'));
  EXPECT_EQ(copied(4), "e5");
  EXPECT_FALSE(copies.has_long());
  EXPECT_TRUE(copies.may_expire());
  EXPECT_EQ(copies.item(3), &item(3));
  EXPECT_TRUE(copies.are_still(5));
  copies.clear();
  EXPECT_FALSE(copies.may_expire());
  add<-1>({location_of(0), location_of(1)});
  ASSERT_EQ(copies.count(), 2u);
  EXPECT_EQ(copied(0), "b2");
  EXPECT_EQ(copied(1), "a1");
}

TEST_F(ScanCopiesTest, OfALongItemThereIsTheHeader) {
  put(0, "a", std::string(112, 'x'));
  put(1, "b", "2");
  add<1>({location_of(0), location_of(1)});
  ASSERT_EQ(copies.count(), 2u);
  EXPECT_TRUE(copies.has_long());
  EXPECT_TRUE(ScanCopies::is_long(copies.version(0).fixed));
  EXPECT_EQ(copied(1), "b2");
  copies.clear();
  EXPECT_FALSE(copies.has_long());
  item(1).set_fixed(item(1).fixed() | word::Huge::mask);
  add<1>({location_of(1)});
  EXPECT_TRUE(copies.has_long());
}

TEST_F(ScanCopiesTest, LeaveOutWhatIsNotLive) {
  for (const ItemState state : {ItemState::free, ItemState::filling, ItemState::dead}) {
    for (std::size_t not_live = 0; not_live < 4; ++not_live) {
      copies.clear();
      std::vector<Location> locations;
      std::string wanted, got;
      for (std::size_t i = 0; i < 4; ++i) {
        put(i, std::string(1 + i, 'k'), std::to_string(i));
        locations.push_back(location_of(i));
        if (i != not_live) wanted += std::string(1 + i, 'k') + std::to_string(i);
      }
      set_state(not_live, state);
      add<1>(locations);
      ASSERT_EQ(copies.count(), 3u) << not_live;
      for (std::uint32_t i = 0; i < 3; ++i) got += copied(i);
      EXPECT_EQ(got, wanted);
      EXPECT_TRUE(copies.are_still(3));
    }
  }
}

TEST_F(ScanCopiesTest, GoOnBehindWhatIsCut) {
  for (std::size_t i = 0; i < 4; ++i) put(i, "k", std::string(20 * i, static_cast<char>('0' + i)));
  add<1>({location_of(1), location_of(2)});
  add<1>({location_of(3)});
  copies.cut(2);
  add<1>({location_of(0), location_of(3)});
  ASSERT_EQ(copies.count(), 4u);
  EXPECT_EQ(copied(0), "k" + std::string(20, '1'));
  EXPECT_EQ(copied(1), "k" + std::string(40, '2'));
  EXPECT_EQ(copied(2), "k");
  EXPECT_EQ(copied(3), "k" + std::string(60, '3'));
}

// A mark of an access is no change; version, expiry and death are.
TEST_F(ScanCopiesTest, TellWhetherItemsHaveChanged) {
  for (std::size_t i = 0; i < 3; ++i) put(i, "k", "v", 9);
  add<1>({location_of(0), location_of(1), location_of(2)});
  item(1).state_word |= word::Accessed::mask | word::Fetched::mask;
  EXPECT_TRUE(copies.are_still(3));
  set_state(2, ItemState::live, 10);
  EXPECT_FALSE(copies.are_still(3));
  EXPECT_TRUE(copies.are_still(2));
  set_state(2, ItemState::live, 9);
  EXPECT_TRUE(copies.are_still(3));
  item(0).set_fixed(word::CasLow::put(item(0).fixed(), 100));
  EXPECT_FALSE(copies.are_still(1));
  item(0).set_fixed(word::CasLow::put(item(0).fixed(), 1));
  set_state(1, ItemState::dead, 9);
  EXPECT_FALSE(copies.are_still(3));
}

}  // namespace
}  // namespace tandem
