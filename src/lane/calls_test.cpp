// Batch calls of the lane: the bound of an epoch.
#include "lane/calls.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "index/lanes_of_test.hpp"
#include "lane/state.hpp"
#include "task/task_fixture.hpp"

namespace tandem {
namespace {

[[maybe_unused]] const testing::Environment* const lanes_of_test = testing::AddGlobalTestEnvironment(
    new LanesOfTest([](std::string_view name) { return lane::ops_named(name) != nullptr; }));

class CallLaneTest : public TaskTest {
 protected:
  // Divides a run's requests by its epochs: memory that was retired in an epoch is not safe before its end.
  struct Epochs {
    EpochDomain& domain;
    std::uint64_t stamp = domain.retire_stamp();
    std::size_t begin = 0, longest = 0, count = 0, replies = 0;

    static void visit(void* self, std::size_t first, std::span<const Reply> replies) {
      static_cast<Epochs*>(self)->add(first, replies.size());
    }
    void add(std::size_t first, std::size_t visited) {
      replies += visited;
      if (domain.is_safe(stamp)) {
        begin = first;
        ++count;
        stamp = domain.retire_stamp();
      }
      longest = std::max(longest, first + visited - begin);
    }
  };
  static constexpr std::size_t epochs = 4, requests = 3 * 4096 + 100;
};

TEST_F(CallLaneTest, AnEpochHasAtMost4096Gets) {
  ASSERT_EQ(set("key", "value"), Status::stored);
  CallLane lane(context_);
  const std::vector<std::string_view> keys(requests, "key");
  Epochs seen{epochs_};
  lane.run(keys, KeyCheck::store, 0, Epochs::visit, &seen);
  EXPECT_EQ(seen.replies, requests);
  EXPECT_EQ(seen.count, epochs);
  EXPECT_EQ(seen.longest, 4096u);
}

TEST_F(CallLaneTest, AnEpochHasAtMost4096Requests) {
  ASSERT_EQ(set("key", "value"), Status::stored);
  CallLane lane(context_);
  std::vector<Request> gets_and_sets(requests, {.key = "key"});
  for (std::size_t i = 0; i < requests; i += 2)
    gets_and_sets[i] = {.action = Action::set, .key = "key", .value = "other"};
  Epochs seen{epochs_};
  lane.run(gets_and_sets, 0, Epochs::visit, &seen);
  EXPECT_EQ(seen.replies, requests);
  EXPECT_EQ(seen.count, epochs);
  EXPECT_EQ(seen.longest, 4096u);
}

}  // namespace
}  // namespace tandem
