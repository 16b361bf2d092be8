// While a replica rests, sets in place mark their items: the lane's own, and those that it takes slowly.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "lane/lane.hpp"
#include "placement/mirrored/dirty_map.hpp"
#include "store/lane_input_fixture.hpp"

namespace tandem {
namespace {

using std::string;
using namespace lane_test;  // NOLINT(google-build-using-namespace): the test's own

class LaneRestTest : public OnEachLane {
 protected:
  // Runs the input in the lane alone, and returns how many blocks it has marked.
  std::size_t marks_of(codec::ReplyHarness& store, DirtyMap& map, const string& input) {
    Lane lane(store.context(), store.options(), instructions());
    Parser parser(store.options(), store.engine().shared().clock);
    const auto copy = padded(input);
    LaneSegment segment{.begin = copy.get(), .end = copy.get() + input.size(), .parser = &parser, .binary = false};
    Output out;
    lane.run({&segment, 1}, out, 1 << 20, true);
    EXPECT_FALSE(segment.stopped);
    std::array<std::uint32_t, 64> blocks{};
    std::size_t taken = 0;
    std::uint64_t at = 0;
    do {
      std::size_t some = 0;
      at = map.take_blocks(at, blocks, some);
      taken += some;
    } while (at != map.blocks());
    return taken;
  }
};

TEST_P(LaneRestTest, SetsInPlaceMarkTheirItem) {
  codec::ReplyHarness store({}, engine_options());
  Shared& shared = store.engine().shared();
  MemoryBudget budget(std::uint64_t{64} << 20);
  DirtyMap map(shared.heap, std::uint64_t{64} << 20, budget);
  map.make({.cells = {}, .shape = {.mask = 0}, .serial = 1, .whole = true});
  map.use();
  ASSERT_TRUE(map.follows(1));
  shared.dirty = &map;
  EXPECT_EQ(marks_of(store, map, "set k0 0 0 1\r\na\r\nset longflags 7 0 1\r\na\r\n"), 0u);
  EXPECT_EQ(marks_of(store, map, "set k0 0 0 1\r\nb\r\n"), 0u) << "no replica rests";
  shared.rewrites = Rewrites::marked;
  EXPECT_EQ(marks_of(store, map, "get k0\r\n"), 0u);
  EXPECT_EQ(marks_of(store, map, "set k0 0 0 1\r\nc\r\n"), 1u);
  EXPECT_EQ(marks_of(store, map, "set longflags 7 0 1\r\nc\r\n"), 1u) << "not the usual set";
  shared.flush_cas = 1;
  EXPECT_EQ(marks_of(store, map, "set k0 0 0 1\r\nd\r\n"), 1u) << "some items were flushed, this one was not";
  shared.rewrites = Rewrites::unseen;
  EXPECT_EQ(marks_of(store, map, "set k0 0 0 1\r\ne\r\nset longflags 7 0 1\r\ne\r\n"), 0u);
  shared.dirty = nullptr;
}

INSTANTIATE_TEST_SUITE_P(All, LaneRestTest, every_lane(), lane_name);

}  // namespace
}  // namespace tandem
