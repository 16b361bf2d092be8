// What an index of any kind does, on all of its lanes.
#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <vector>

#include "index/cuckoo/cuckoo_index.hpp"
#include "index/cuckoo/index_test_support.hpp"
#include "index/set_associative/set_index-inl.hpp"
#include "index/set_associative/set_index.hpp"
#include "index/slab_list/slab_index.hpp"

namespace tandem {
namespace {

template <class Ops>
std::vector<std::string_view> supported(const Ops& built) {
  std::vector<std::string_view> names;
  for (const auto* ops : built) {
    if (ops->supported()) names.push_back(ops->name);
  }
  return names;
}

template <class I>
std::vector<std::string_view> lanes_of_kind() {
  return {{}};  // it has one
}
template <>
std::vector<std::string_view> lanes_of_kind<CuckooIndex>() {
  return supported(cuckoo_ops_built());
}
template <>
std::vector<std::string_view> lanes_of_kind<SetAssociativeIndex>() {
  return supported(set_ops_built());
}

template <>
std::vector<std::string_view> lanes_of_kind<SlabListIndex>() {
  return supported(slab_ops_built());
}

template <class I>
class AnyIndex : public testing::Test {};
using AllKinds = testing::Types<CuckooIndex, SlabListIndex, SetAssociativeIndex, BasicSetIndex<16, SetReading::locked>,
                                BasicSetIndex<1>, BasicSetIndex<2>, BasicSetIndex<4>, BasicSetIndex<8>>;
TYPED_TEST_SUITE(AnyIndex, AllKinds, );

TYPED_TEST(AnyIndex, FindsWhatWasPutAndNothingElse) {
  using Worker = BasicTestWorker<TypeParam>;
  for (const std::string_view lanes : lanes_of_kind<TypeParam>()) {
    BasicTestStore<TypeParam> store({.lanes = lanes});
    Worker worker(store);
    EXPECT_TRUE(lanes.empty() || store.index.lanes() == lanes) << lanes;
    EXPECT_EQ(worker.get("a"), std::nullopt);
    EXPECT_EQ(worker.set("a", 1), Worker::Outcome::done);
    EXPECT_EQ(worker.set("b", 2), Worker::Outcome::done);
    EXPECT_EQ(worker.get("a"), 1u);
    EXPECT_EQ(worker.get("b"), 2u);
    EXPECT_EQ(worker.set("a", 3, true), Worker::Outcome::refused);
    EXPECT_EQ(worker.set("a", 3), Worker::Outcome::done);
    EXPECT_EQ(worker.get("a"), 3u);
    EXPECT_EQ(store.index.item_count(), 2u);
    EXPECT_TRUE(worker.erase("a"));
    EXPECT_FALSE(worker.erase("a"));
    EXPECT_EQ(worker.get("a"), std::nullopt);
    EXPECT_EQ(store.index.item_count(), 1u);
    EXPECT_EQ(worker.second_looks, 2u) << "hits need no second look";
  }
}

}  // namespace
}  // namespace tandem
