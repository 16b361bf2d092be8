// Scans in parts that are read at different moments.
#include "task/scan.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "task/task_fixture.hpp"

namespace tandem {
namespace {

// Keys of a snapshot; has something happen when its first item comes the first time.
struct KeySink final : ItemSink {
  explicit KeySink(std::function<void()> h) : happens(std::move(h)) {}
  void restart() override {
    keys.clear();
    ++restarts;
  }
  bool item(const Item& item, const ItemVersion&, std::uint64_t) override {
    keys.emplace_back(item.key());
    if (happens) std::exchange(happens, nullptr)();
    return true;
  }
  std::function<void()> happens;
  std::vector<std::string> keys;
  int restarts = 0;
};

class TaskScan : public TaskTest {
 protected:
  TaskScan() : TaskTest({}, std::uint64_t{16} << 20, true) { shared_.growth_refused = false; }

  void set_expired(const std::string& key) { ASSERT_EQ(store(key, "v", 0, now_s), Status::stored); }
  Location make_item(std::string_view key) {
    const Heap::Cache::Lock lock(context_.cache);
    const Location l = heap_.allocate(context_.cache, heap_.size_class(32), 32);
    heap_.format(l, key, 0, 8, Clock::never, now_s, false);
    return l;
  }
  // In the scan's epoch, as another thread would do it.
  void publish(std::string_view key, Location l) {
    CuckooIndex::Guard guard = index_.lock(fingerprint_of(key, shared_.hash_seed));
    ASSERT_EQ(guard.find(key), nullptr);
    const std::uint64_t live =
        word::State::put(heap_.at(l)->state_acquire(), static_cast<std::uint64_t>(ItemState::live));
    ASSERT_EQ(guard.put(l, live), IndexPut::done);
  }
  void erase(std::string_view key) {
    CuckooIndex::Guard guard = index_.lock(fingerprint_of(key, shared_.hash_seed));
    ASSERT_NE(guard.find(key), nullptr);
    ASSERT_TRUE(guard.erase());
  }
  using Keys = std::vector<std::string>;
};

TEST_F(TaskScan, ExpiredItemsAreReadPast) {
  for (int i = 100; i < 400; ++i) set_expired("k" + std::to_string(i));
  store("k399x", "v");
  store("k5", "v");
  KeySink sink(nullptr);
  const ScanEnd end = task::scan(context_, {}, 1, sink);
  EXPECT_EQ(sink.keys, Keys{"k399x"});
  EXPECT_FALSE(end.done);
  EXPECT_EQ(end.last_key(), "k399x");
  EXPECT_EQ(sink.restarts, 0);
}

// Runs of them before, between and behind other items; and none in a scan that has no other ones.
TEST_F(TaskScan, FlushedItemsAreReadPast) {
  const auto scan = [&](const ScanRange& range, std::uint32_t limit) {
    KeySink sink(nullptr);
    task::scan(context_, range, limit, sink);
    return sink.keys;
  };
  for (const char* key : {"a", "b", "d", "f", "g"}) store(key, "v");
  shared_.flush_cas.store(shared_.take_cas_ids(1));
  EXPECT_EQ(scan({}, 10), Keys());
  for (const char* key : {"c", "e"}) store(key, "v");
  EXPECT_EQ(scan({}, 10), (Keys{"c", "e"}));
  EXPECT_EQ(scan({}, 1), Keys{"c"});
  EXPECT_EQ(scan({.reverse = true}, 10), (Keys{"e", "c"}));
  EXPECT_EQ(scan({.begin = "c", .end = "d"}, 10), Keys{"c"});
  EXPECT_EQ(scan({.begin = "d", .end = "e"}, 10), Keys());
}

// Four parts of 1, 64, 256 and what is left of 1,024 copies.
TEST_F(TaskScan, SoManyAreLookedAt) {
  for (int i = 1000; i < 2023; ++i) set_expired("k" + std::to_string(i));
  store("k2023", "v");
  store("k2024", "v");
  KeySink sink(nullptr);
  ScanEnd end = task::scan(context_, {}, 1, sink);
  EXPECT_EQ(sink.keys, Keys{"k2023"}) << "the last of 1,024";
  EXPECT_EQ(end.last_key(), "k2023");
  set_expired("k0999");
  sink.keys.clear();
  end = task::scan(context_, {}, 1, sink);
  EXPECT_EQ(sink.keys, Keys());
  EXPECT_EQ(end.count, 0u);
  EXPECT_FALSE(end.done);
  EXPECT_EQ(end.last_key(), "k2022");
}

// The first part has been read and has no a2; then that is added, and z, which the second part would have, removed.
TEST_F(TaskScan, AllPartsAreOfOneMoment) {
  for (const bool reverse : {false, true}) {
    const std::string added = reverse ? "y9" : "a2", removed = reverse ? "a0" : "z";
    for (const char* key : {"a1", "m", "y8", removed.c_str()}) store(key, "v");
    for (const char* key : {"b", "c", "w", "x"}) set_expired(key);
    const Location l = make_item(added);
    KeySink sink([&] {
      publish(added, l);
      erase(removed);
    });
    task::scan(context_, {.reverse = reverse}, 4, sink);
    EXPECT_EQ(sink.restarts, 1);
    EXPECT_EQ(std::ranges::count(sink.keys, added), 1);
    EXPECT_EQ(std::ranges::count(sink.keys, removed), 0);
    for (const char* key : {"a1", "a2", "m", "y8", "y9"}) {
      clear();
      add(Opcode::remove, key);
      ASSERT_EQ(write(), task::Settled::done);
      clear();
    }
  }
}

}  // namespace
}  // namespace tandem
