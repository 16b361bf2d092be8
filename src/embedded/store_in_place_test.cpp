// The embedded store while sets rewrite items in place: the value that a visitor sees does not change.
#include <gtest/gtest.h>

#include <string>

#include "heap/item_rewrite.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

class StoreInPlaceTest : public testing::TestWithParam<std::size_t> {
 protected:
  Store store{{.memory_bytes = 64 << 20, .huge_pages = false}};
  Session mine = store.session(), other = store.session();
  const std::string before = std::string(GetParam(), 'a'), after = std::string(GetParam(), 'b');
};

TEST_P(StoreInPlaceTest, AVisitorsValueStaysThoughItIsSetMeanwhile) {
  ASSERT_EQ(mine.set("key", before), Code::stored);
  const Request gets[] = {{.action = Action::get, .key = "key"}, {.action = Action::get, .key = "key"}};
  int visits = 0;
  mine.execute(gets, [&](std::size_t, const Reply& r) {
    ++visits;
    ASSERT_EQ(r.code, Code::hit);
    EXPECT_EQ(other.set("key", after), Code::stored);
    EXPECT_EQ(r.value, before);
    EXPECT_EQ(r.key(), "key");
  });
  EXPECT_EQ(visits, 2);
  EXPECT_EQ(mine.get("key"), after);
}

TEST_P(StoreInPlaceTest, SoDoesWhatForEachShows) {
  ASSERT_EQ(mine.set("key", before), Code::stored);
  std::string shown;
  store.for_each([&](std::string_view key, const Reply& r) {
    if (!shown.empty()) return;  // a concurrent set made a new item, which the walk may visit, too
    shown = key;
    EXPECT_EQ(other.set("key", after), Code::stored);
    EXPECT_EQ(key, "key");
    EXPECT_EQ(r.key(), "key");
    EXPECT_EQ(r.value, before);
  });
  EXPECT_EQ(shown, "key");
  EXPECT_EQ(mine.get("key"), after);
}

// A set returns its own id, which the next get then shows.
TEST_P(StoreInPlaceTest, TheIdOfASetIsItsOwn) {
  ASSERT_EQ(mine.set("key", before), Code::stored);
  const Request set{.action = Action::set, .key = "key", .value = after};
  std::uint64_t cas = 0;
  mine.execute({&set, 1}, [&](std::size_t, const Reply& r) { cas = r.cas; });
  Value value;
  ASSERT_EQ(other.get("key", value), Code::hit);
  EXPECT_EQ(value.cas, cas);
  EXPECT_EQ(value.bytes, after);
}

INSTANTIATE_TEST_SUITE_P(Bytes, StoreInPlaceTest,
                         testing::Values(0, 1, 8, 15, 100, rewritten_value_bytes_max, rewritten_value_bytes_max + 1));

}  // namespace
}  // namespace tandem
