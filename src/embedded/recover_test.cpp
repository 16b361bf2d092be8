// Warm restart in one process: what is restored, what is dropped, and invalid files.
#include "engine/recover.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "embedded/restart_fixture.hpp"
#include "engine/engine.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

TEST_F(RestartTest, EverythingComesBack) {
  std::map<std::string, std::string> items;
  TestRandom random(1);
  for (int i = 0; i < 20'000; ++i) {
    items["key " + std::to_string(random.below(15'000))] =
        std::string(random.below(8) == 0 ? random.below(9000) : random.below(60), static_cast<char>('a' + i % 26));
  }
  items["large"] = std::string(700'000, 'L');
  items["empty"] = "";
  items[std::string(250, 'k')] = "the longest key";
  items[std::string("\0\n bytes", 8)] = std::string("\0\0", 2);
  std::uint64_t cas_before = 0;
  {
    Store store(options());
    for (const auto& [key, value] : items) {
      ASSERT_EQ(store.set(key, value, {.flags = static_cast<std::uint32_t>(value.size())}), Code::stored);
    }
    for (int i = 0; i < 1000; ++i) store.set("gone " + std::to_string(i), "x");
    for (int i = 0; i < 1000; ++i) store.remove("gone " + std::to_string(i));
    Value v;
    ASSERT_EQ(store.get("large", v), Code::hit);
    cas_before = v.cas;
  }
  Store store(options());
  EXPECT_EQ(store.stats().items, items.size());
  for (const auto& [key, value] : items) {
    Value v;
    ASSERT_EQ(store.get(key, v), Code::hit) << key;
    ASSERT_EQ(v.bytes, value);
    ASSERT_EQ(v.flags, value.size());
  }
  Value v;
  ASSERT_EQ(store.get("large", v), Code::hit);
  EXPECT_EQ(v.cas, cas_before);
  EXPECT_FALSE(store.get("gone 7"));
}

TEST_F(RestartTest, TheStoreGoesOnBeingUsable) {
  constexpr int rounds = is_sanitized ? 2 : 4, stores = is_sanitized ? 10'000 : 30'000;
  for (int round = 0; round < rounds; ++round) {
    Store store(options(16 * mib));
    TestRandom random(static_cast<std::uint64_t>(round));
    for (int i = 0; i < stores; ++i) {
      const std::string key = std::to_string(random.below(4000));
      store.set(key, key + std::string(random.below(round % 2 == 0 ? 200 : 5000), 'v'));
      if (i % 500 == 0) store.set("huge " + std::to_string(i), std::string(900'000, 'h'));
    }
    EXPECT_GT(store.stats().evictions, 0u);
    EXPECT_LE(store.stats().memory_used_bytes, 16 * mib);
    store.for_each([](std::string_view key, const Reply& item) {
      if (key.starts_with("huge")) return;
      ASSERT_TRUE(item.value.starts_with(key));
    });
  }
}

TEST_F(RestartTest, HugeItemsComeBackWithTheirPages) {
  Options o = options(128 * mib);
  o.item_bytes_max = 32 * mib;
  const auto value = [](int i) {
    return std::string(static_cast<std::size_t>(i) * 1'300'000, static_cast<char>('a' + i));
  };
  {
    Store store(o);
    for (int i = 1; i < 9; ++i) ASSERT_EQ(store.set("huge " + std::to_string(i), value(i)), Code::stored);
    store.remove("huge 3");
    store.append("huge 2", "tail");
  }
  Store store(o);
  EXPECT_EQ(store.stats().items, 7u);
  for (int i = 1; i < 9; ++i) {
    const auto got = store.get("huge " + std::to_string(i));
    ASSERT_EQ(got.has_value(), i != 3);
    if (got) {
      EXPECT_EQ(*got, value(i) + (i == 2 ? "tail" : ""));
    }
  }
  const std::uint64_t used = store.stats().memory_used_bytes;
  for (int i = 1; i < 9; ++i) store.remove("huge " + std::to_string(i));
  for (int i = 0; i < 200; ++i) store.set("x" + std::to_string(i), std::string(3'000'000, 'x'));
  EXPECT_LE(store.stats().memory_used_bytes, std::max(used, 128 * mib));
}

TEST_F(RestartTest, TheFileIsNoLongerThanWhatIsUsed) {
  {
    Store store(options());
    store.set("a", std::string(900'000, 'a'));
    for (int i = 0; i < 100'000; ++i) store.set(std::to_string(i), "some value");
    store.clear();
  }
  {
    const Store again(options());
  }
  struct stat info{};
  ASSERT_EQ(stat(file.path().c_str(), &info), 0);
  EXPECT_LE(static_cast<std::uint64_t>(info.st_blocks) * 512, 3 * mib);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

TEST_F(RestartTest, ExpiredItemsAreGoneAndTimeDoesNotGoBack) {
  std::uint32_t second = 0;
  {
    Engine engine(engine_options());
    second = engine.shared().clock.now_s();
  }
  {
    Store store(options());
    store.set("short", "1", {.ttl_s = 100});
    store.set("long", "1", {.ttl_s = 1000});
    store.set("for ever", "1");
  }
  // The process was down for 200 seconds.
  age(200);
  {
    Engine engine(engine_options());
    ASSERT_TRUE(engine.restart());
    EXPECT_EQ(engine.restart()->items, 2u);
    EXPECT_EQ(engine.restart()->expired, 1u);
    EXPECT_GE(engine.shared().clock.now_s(), second + 200);
    EXPECT_LT(engine.shared().clock.uptime_s(), 5u);
    second = engine.shared().clock.now_s();
  }
  // The system's clock went back by a day: no time has passed, and no expired item returns.
  age(-86'400);
  {
    Engine engine(engine_options());
    EXPECT_GE(engine.shared().clock.now_s(), second);
    EXPECT_LT(engine.shared().clock.now_s(), second + 100);
    EXPECT_EQ(engine.restart()->items, 2u);
  }
  Store store(options());
  EXPECT_TRUE(store.get("long"));
  EXPECT_FALSE(store.get("short"));
}

TEST_F(RestartTest, FlushesLastOverARestart) {
  {
    Store store(options());
    store.set("before", "1");
    store.clear();
    store.set("after", "1");
  }
  {
    Store store(options());
    EXPECT_FALSE(store.get("before"));
    EXPECT_TRUE(store.get("after"));
  }
  {
    Engine engine(engine_options());
    engine.flush_all(engine.shared().clock.now_s() + 100);
  }
  {
    Store store(options());
    EXPECT_TRUE(store.get("after"));
  }
  age(150);
  {
    Store store(options());
    EXPECT_FALSE(store.get("after"));
    store.set("new", "1");
  }
  Store store(options());  // the flush is not applied again
  EXPECT_TRUE(store.get("new"));
}

TEST_F(RestartTest, AFlushWithADelayThatWasReplacedDoesNotCome) {
  {
    Engine engine(engine_options());
    engine.flush_all(engine.shared().clock.now_s() + 100);
    engine.flush_all(0);
  }
  {
    Store store(options());
    store.set("new", "1");
  }
  age(150);
  Store store(options());
  EXPECT_TRUE(store.get("new"));
}

TEST_F(RestartTest, CasIdsGoOn) {
  std::uint64_t last = 0;
  const auto store_one = [&](Store& store) {
    const Request r{.action = Action::set, .key = "key", .value = "1"};
    std::uint64_t cas = 0;
    store.execute({&r, 1}, [&](std::size_t, const Reply& reply) { cas = reply.cas; });
    EXPECT_GT(cas, last);
    last = cas;
  };
  for (int i = 0; i < 3; ++i) {
    Store store(options());
    for (int n = 0; n < 100; ++n) store_one(store);
  }
  EXPECT_LT(last, 1000u);  // an orderly end loses none
  Store store(options());
  EXPECT_GT(get<std::uint64_t>(offsetof(FileHeader, saved) + offsetof(SavedState, cas_reserved)), last);
}

TEST_F(RestartTest, TwoOfAKeyLeaveTheLaterOne) {
  for (const bool later_first : {false, true}) {
    std::remove(file.path().c_str());
    {
      Store store(options());
      store.set("first", "value 1");
      store.set("second", "value 2");
    }
    // Makes the two slots items of one key.
    const PageId page = page_of_state(PageState::open);
    std::vector<std::uint64_t> slots;
    for (std::uint64_t at = page_at(page); slots.size() < 2 && at < page_at(page + 1); at += granule_bytes) {
      if (Item::state_of(get<std::uint64_t>(at)) == ItemState::live) slots.push_back(at);
    }
    ASSERT_EQ(slots.size(), 2u);
    const auto fixed = get<std::uint64_t>(slots[0] + 8);
    const auto other = get<std::uint64_t>(slots[1] + 8);
    const std::uint64_t low = word::CasLow::get(fixed), high = word::CasLow::get(other);
    put(slots[0] + 8, word::CasLow::put(word::KeyBytes::put(fixed, 3), later_first ? high : low));
    put(slots[1] + 8, word::CasLow::put(word::KeyBytes::put(other, 3), later_first ? low : high));
    put(slots[0] + 16, "onevalue", 8);
    put(slots[1] + 16, "onebytes", 8);
    Store store(options());
    EXPECT_EQ(store.stats().items, 1u);
    const auto is = store.get("one");
    ASSERT_TRUE(is);
    EXPECT_TRUE(is->starts_with(later_first ? "value" : "bytes")) << *is;
    for (int i = 0; i < 40'000; ++i) store.set(std::to_string(i), "the slot of the other is used again");
  }
}

TEST_F(RestartTest, ASmallerLimitKeepsWhatWasUsedLast) {
  constexpr int count = 200'000;
  const std::string value(200, 'v');
  const auto fill = [&](int begin, int end) {
    Store store(options(128 * mib));
    for (int i = begin; i < end; ++i) store.set(std::to_string(i), value);
    EXPECT_EQ(store.stats().evictions, 0u);
  };
  fill(count / 2, count);
  age(3600);
  fill(0, count / 2);  // an hour later

  const RestartReport report = reopened(16 * mib);
  EXPECT_EQ(report.items + report.no_room, static_cast<std::uint64_t>(count));
  EXPECT_GT(report.items, 16 * mib / 2 / 256);
  EXPECT_LT(report.items, static_cast<std::uint64_t>(count) / 2);
  Store store(options(16 * mib));
  EXPECT_LE(store.stats().memory_used_bytes, 16 * mib);
  std::uint64_t early = 0, late = 0;
  for (int i = 0; i < count; ++i) {
    const auto v = store.get(std::to_string(i));
    if (!v) continue;
    ASSERT_EQ(*v, value);
    ++(i < count / 2 ? late : early);
  }
  EXPECT_EQ(early + late, report.items);
  EXPECT_LT(early, report.items / 50);  // on a page with some of both
  for (int i = 0; i < count; ++i) ASSERT_EQ(store.set(std::to_string(i), value), Code::stored);
}

TEST_F(RestartTest, ALargerLimitIsUsed) {
  {
    Store store(options(16 * mib));
    for (int i = 0; i < 1000; ++i) store.set(std::to_string(i), std::string(5000, 'v'));
  }
  Store store(options(64 * mib));
  EXPECT_EQ(store.stats().items, 1000u);
  for (int i = 1000; i < 8000; ++i) store.set(std::to_string(i), std::string(5000, 'v'));
  EXPECT_EQ(store.stats().evictions, 0u);
  EXPECT_EQ(store.stats().items, 8000u);
}

// The new process makes the order of the keys again, which may take no more memory than the old one's did.
void fill_and_restart_ordered(const RestartTest& test, bool ascends, const char* preset) {
  constexpr std::uint64_t stored = is_sanitized ? 400'000 : 2'000'000, batch = 100;
  Options o = test.options((is_sanitized ? 8 : 32) * mib);
  o.item_bytes_expected = 64;
  o.preset = preset;
  o.ordered = o.preset == "cpu";
  std::uint64_t items = 0;
  {
    Store store(o);
    Session session = store.session();
    std::vector<std::string> keys(batch);
    std::vector<Request> requests(batch);
    for (std::uint64_t i = 0; i < stored; i += batch) {
      for (std::uint64_t n = 0; n < batch; ++n) {
        const std::uint64_t number = ascends ? i + n : (i + n) * 0x9e3779b97f4a7c15u % 1'000'000'000'000u;
        const std::string digits = std::to_string(number);
        keys[n] = "k" + std::string(12 - digits.size(), '0') + digits;
        requests[n] = {.action = Action::set, .key = keys[n], .value = "v"};
      }
      session.execute(requests, [](std::size_t, const Reply&) {});
    }
    items = store.stats().items;
  }
  ASSERT_LT(items, stored / 2) << "then it was never full";
  const Store store(o);
  // Recovery drops whole pages. How many fit beside the order depends on how full its leaves were, and so on what the
  // thread that keeps the order had time for.
  constexpr std::uint64_t items_of_page = mib / 32;
  EXPECT_GE(store.stats().items, items - items / 50 - items_of_page);
}

TEST_F(RestartTest, AFullOrderedStoreIsKept) {
  for (const char* const preset : {"cpu", "heterokv"}) {
    for (const bool ascends : {true, false}) {
      if (is_sanitized && ascends != (preset == std::string_view("cpu"))) continue;
      SCOPED_TRACE(std::string(preset) + (ascends ? ", ascending" : ", random"));
      std::filesystem::remove(file.path());
      fill_and_restart_ordered(*this, ascends, preset);
    }
  }
}

}  // namespace
}  // namespace tandem
