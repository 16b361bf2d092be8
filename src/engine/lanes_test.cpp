// A store with options that name no lanes takes those that the environment wants, index and lane alike.
#include <gtest/gtest.h>

#include "engine/reply_harness.hpp"
#include "index/lanes_of_test.hpp"
#include "lane/lane.hpp"
#include "lane/state.hpp"

namespace tandem {
namespace {

const testing::Environment* const lanes_of_test = testing::AddGlobalTestEnvironment(
    new LanesOfTest([](std::string_view name) { return lane::ops_named(name) != nullptr; }));

TEST(Lanes, AreThoseThatTheEnvironmentWants) {
  ASSERT_NE(lanes_of_test, nullptr);
  for (const lane::Ops* const ops : lane::ops_built()) {
    if (!ops->supported()) continue;
    const WithLanes lanes(ops->name);
    codec::ReplyHarness store({}, codec::ReplyHarness::small_engine());
    EXPECT_EQ(Lane(store.context(), store.options()).instructions(), ops->name);
    EXPECT_TRUE(ops->name.starts_with(store.engine().shared().index.lanes())) << store.engine().shared().index.lanes();
  }
}

}  // namespace
}  // namespace tandem
