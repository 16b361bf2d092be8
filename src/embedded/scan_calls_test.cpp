// Scans of the embedded store.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "index/writers_rest.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

constexpr int scans_max = is_sanitized ? 600 : 40'000, whole_wanted = is_sanitized ? 60 : 2000;

using Items = std::vector<std::pair<std::string, std::string>>;

class EmbeddedScan : public testing::TestWithParam<const char*> {
 public:
  static Options options() {
    // Moves of items may overtake a scan, which then has fewer items than it might (arrange_test.cpp).
    Options o{.memory_bytes = std::uint64_t{64} << 20, .huge_pages = false, .arrange = false, .preset = "cpu"};
    if (std::string_view(GetParam()) == "ordered") {
      o.ordered = true;
    } else {
      o.preset = GetParam();
    }
    return o;
  }
  Items scan(const KeyRange& range, std::size_t limit, Scanned* end = nullptr) {
    Items items;
    const Scanned scanned =
        session.scan(range, limit, [&](const ScannedItem& item) { items.emplace_back(item.key, item.value); });
    EXPECT_EQ(scanned.count, items.size());
    if (end != nullptr) *end = scanned;
    return items;
  }
  void move_a_key(std::size_t limit);
  Store store{options()};
  Session session = store.session();
};

TEST_P(EmbeddedScan, IsAPartOfASortedMap) {
  std::map<std::string, std::string> model;
  std::mt19937_64 random(3);
  const auto key = [&] {
    std::string bytes(1 + random() % 4, 'a');
    for (char& c : bytes) c = static_cast<char>(random() % 2 == 0 ? random() : random() % 2 * 255);
    return bytes;
  };
  for (int i = 0; i < 3000; ++i) {
    const std::string k = key(), value(random() % 40, 'v');
    ASSERT_EQ(session.set(k, value, {.flags = 7}), Code::stored);
    model.insert_or_assign(k, value);
  }
  for (int i = 0; i < 60; ++i) {
    const std::string low = key(), high = key();
    const KeyRange range{
        .begin = low, .end = i % 3 == 0 ? std::string_view() : high, .after_begin = i % 2 == 0, .reverse = i % 5 == 0};
    Items wanted, got;
    for (const auto& item : model) {
      const bool is_in =
          (item.first > low || (item.first == low && !range.after_begin)) && (range.end.empty() || item.first < high);
      if (is_in) wanted.push_back(item);
    }
    if (range.reverse) std::reverse(wanted.begin(), wanted.end());
    EXPECT_EQ(session.scan_all(
                  range,
                  [&](const ScannedItem& item) {
                    EXPECT_EQ(item.flags, 7u);
                    EXPECT_NE(item.cas, 0u);
                    got.emplace_back(item.key, item.value);
                  },
                  static_cast<std::size_t>(1 + i % 7)),
              wanted.size());
    EXPECT_EQ(got, wanted);
  }
  std::string above;
  const KeyRange with_255 = range_of_prefix("\xff", above);
  EXPECT_TRUE(with_255.end.empty());
  std::uint64_t begin_so = 0;
  for (const auto& item : model) begin_so += item.first[0] == '\xff' ? 1u : 0u;
  EXPECT_EQ(session.remove_range(with_255), begin_so);
  EXPECT_EQ(scan(with_255, 10), Items());
  EXPECT_EQ(session.scan_all({}, [](const ScannedItem&) {}), model.size() - begin_so);
}

TEST_P(EmbeddedScan, IsBounded) {
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(session.set("k" + std::to_string(10'000 + i), "v"), Code::stored);
  Scanned end;
  EXPECT_EQ(scan({}, 5000, &end).size(), 1024u);
  EXPECT_FALSE(end.done);
  EXPECT_EQ(end.last, "k11023");
  ASSERT_EQ(session.set("a", std::string(400'000, 'x')), Code::stored);
  const Items first = scan({}, 10, &end);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].second.size(), 400'000u);
  EXPECT_FALSE(end.done);
  EXPECT_EQ(scan({.begin = end.last, .after_begin = true}, 1), (Items{{"k10000", "v"}}));
  EXPECT_EQ(scan({.begin = "k11999"}, 1024, &end), (Items{{"k11999", "v"}}));
  EXPECT_TRUE(end.done);
  EXPECT_EQ(scan({.begin = "z", .end = "a"}, 10, &end), Items());
  EXPECT_TRUE(end.done);
  EXPECT_THROW(scan({}, 0), std::invalid_argument);
}

// The visitor may use the store: it is called when all is copied.
TEST_P(EmbeddedScan, TheVisitorMayUseTheStore) {
  for (const char* key : {"a", "b", "c"}) ASSERT_EQ(session.set(key, "1"), Code::stored);
  session.scan({}, 10, [&](const ScannedItem& item) { EXPECT_EQ(session.remove(item.key), Code::removed); });
  EXPECT_EQ(scan({}, 10), Items());
}

// What a visitor looks at stays what it was, whatever it scans meanwhile.
TEST_P(EmbeddedScan, TheVisitorMayScan) {
  for (int i = 100; i < 200; ++i) ASSERT_EQ(session.set(std::to_string(i), std::to_string(-i)), Code::stored);
  ASSERT_EQ(session.set("150", std::string(3000, 'x')), Code::stored);
  Items outer, inner;
  for (int pass = 0; pass < 2; ++pass) {
    outer.clear();
    session.scan({.begin = "140"}, 20, [&](const ScannedItem& item) {
      inner = scan({.begin = "141", .end = "160", .reverse = true}, 1000);
      outer.emplace_back(item.key, item.value);
    });
    EXPECT_EQ(inner.size(), 19u);
    std::reverse(inner.begin(), inner.end());
    ASSERT_EQ(outer.size(), 20u);
    EXPECT_EQ(Items(outer.begin() + 1, outer.end()), inner);
    EXPECT_EQ(outer[0], (Items::value_type{"140", "-140"}));
    EXPECT_EQ(outer[10].second, std::string(3000, 'x'));
  }
  std::vector<RangeScan> batch(3, {.range = {.begin = "170"}, .limit = 5});
  std::size_t batched = 0, whole = 0;
  session.scan_batch(batch, [&](std::size_t, const ScannedItem& item) {
    ++batched;
    whole += scan({.begin = item.key}, 3).size();
    session.arrange();
    EXPECT_EQ(session.remove_range({.begin = "300"}), 0u);
  });
  EXPECT_EQ(batched, 15u);
  EXPECT_EQ(whole, 45u);
  EXPECT_THROW(session.scan({}, 10, [](const ScannedItem&) { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(scan({.begin = "140"}, 20), outer);
}

// Items of all lengths beside each other: those that a scan copies at once (128 bytes in all), those that it copies
// from the item, those that never change (values above 1,024 bytes), and those of whole pages.
TEST_P(EmbeddedScan, LengthsMayDiffer) {
  Options large = options();
  large.item_bytes_max = std::uint64_t{4} << 20;
  Store mixed(large);
  Session of_mixed = mixed.session();
  struct Wanted {
    std::string value;
    std::uint32_t flags;
  };
  std::map<std::string, Wanted> model;
  const std::size_t lengths[] = {0, 8, 8, 100, 104, 105, 108, 109, 400, 1023, 1024, 1025, 5000, 8, 2'000'000, 8};
  for (std::uint32_t i = 0; i < 160; ++i) {
    const std::string key = "key." + std::to_string(1000 + i);
    const Wanted wanted{std::string(lengths[i % std::size(lengths)], static_cast<char>('a' + i % 26)), i / 3 % 2 * i};
    ASSERT_EQ(of_mixed.set(key, wanted.value, {.ttl_s = i % 7 == 3 ? -1 : 0, .flags = wanted.flags}), Code::stored);
    if (i % 7 != 3) model[key] = wanted;
  }
  for (const std::size_t page : {1u, 3u, 40u, 1000u}) {
    for (const bool reverse : {false, true}) {
      std::size_t count = 0;
      std::string last;
      of_mixed.scan_all(
          {.reverse = reverse},
          [&](const ScannedItem& item) {
            ASSERT_TRUE(model.contains(std::string(item.key))) << item.key;
            const Wanted& wanted = model[std::string(item.key)];
            EXPECT_EQ(item.value, wanted.value) << item.key;
            EXPECT_EQ(item.flags, wanted.flags) << item.key;
            const Request read{.action = Action::get, .key = item.key};
            of_mixed.execute({&read, 1}, [&](std::size_t, const Reply& reply) { EXPECT_EQ(item.cas, reply.cas); });
            EXPECT_TRUE(last.empty() || (reverse ? item.key < last : item.key > last)) << last;
            last = item.key;
            ++count;
          },
          page);
      EXPECT_EQ(count, model.size()) << page << reverse;
    }
  }
}

// In batches of up to 40, of which each 16 are fetched together: what single scans find, and how they end.
TEST_P(EmbeddedScan, ABatchIsItsScans) {
  std::mt19937_64 random(5);
  const auto key = [&](std::uint64_t number) { return "shared:" + std::to_string(number); };
  EXPECT_NO_THROW(session.scan_batch({}, [](std::size_t, const ScannedItem&) {}));
  for (int stored = 0; stored < 4; ++stored) {
    for (int i = 0; i < stored * 2000; ++i) ASSERT_EQ(session.set(key(random() % 100'000), "value"), Code::stored);
    for (int round = 0; round < 30; ++round) {
      std::vector<std::string> keys;
      for (int i = 0; i < 80; ++i) keys.push_back(i % 16 == 0 ? std::string() : key(random() % 110'000));
      std::vector<RangeScan> scans;
      for (std::size_t i = 0; i < 1 + random() % 40; ++i) {
        const KeyRange range{
            .begin = keys[2 * i], .end = keys[2 * i + 1], .after_begin = i % 2 == 0, .reverse = i % 3 == 0};
        scans.push_back({.range = range, .limit = 1 + random() % 400});
      }
      std::vector<Items> found(scans.size());
      session.scan_batch(scans,
                         [&](std::size_t i, const ScannedItem& item) { found[i].emplace_back(item.key, item.value); });
      for (std::size_t i = 0; i < scans.size(); ++i) {
        Scanned end;
        ASSERT_EQ(found[i], scan(scans[i].range, scans[i].limit, &end));
        EXPECT_EQ(scans[i].scanned.count, end.count);
        EXPECT_EQ(scans[i].scanned.done, end.done);
        if (!end.done) {
          EXPECT_EQ(scans[i].scanned.last, end.last);
        }
      }
    }
  }
  std::vector<RangeScan> bad(3, {.range = {}, .limit = 1});
  bad[2].limit = 0;
  EXPECT_THROW(session.scan_batch(bad, [](std::size_t, const ScannedItem&) { FAIL(); }), std::invalid_argument);
}

// A scan of a batch may go on where the one of the batch before has ended; visitors may scan, too.
TEST_P(EmbeddedScan, BatchesGoOn) {
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(session.set(std::to_string(10'000 + i), "v"), Code::stored);
  std::vector<RangeScan> scans;
  for (const char* begin : {"100", "110", "120"}) scans.push_back({.range = {.begin = begin}, .limit = 70});
  std::vector<std::string> last(scans.size());
  std::uint64_t count = 0, nested = 0;
  for (bool is_over = false; !is_over;) {
    session.scan_batch(scans, [&](std::size_t i, const ScannedItem& item) {
      if (!scans[i].scanned.done || last[i].empty()) {
        EXPECT_LT(last[i], item.key);
      }
      last[i] = item.key;
      if (++count % 500 == 0) nested += scan({.begin = item.key}, 1).size();
    });
    is_over = true;
    for (RangeScan& scan : scans) {
      is_over &= scan.scanned.done;
      scan.range.go_on_behind(scan.scanned.last);
    }
  }
  // One that is done is made again from where it was, and finds what is left there.
  EXPECT_EQ(last, std::vector<std::string>(3, "12999"));
  EXPECT_GE(count, 3000u + 2000 + 1000);
  EXPECT_EQ(nested, count / 500);
}

// Values that are rewritten in place in a fixed order: no scan shows the second one newer than the first.
TEST_P(EmbeddedScan, ValuesAreOfOneMoment) {
  for (int i = 0; i < 500; ++i) ASSERT_EQ(session.set("m" + std::to_string(i), "fill"), Code::stored);
  ASSERT_EQ(session.set("a", "00000000"), Code::stored);
  ASSERT_EQ(session.set("z", "00000000"), Code::stored);
  std::atomic<bool> is_over{false};
  WritersRest rest;
  std::thread writer([&] {
    Session writes = store.session();
    for (std::uint32_t n = 1; !is_over; ++n) {
      const std::string value = std::to_string(10'000'000 + n);
      writes.set("z", value);
      rest.rest_if_wanted();
      writes.set("a", value);
      rest.rest_if_wanted();
    }
  });
  int whole = 0;
  for (int i = 0; i < scans_max && whole < whole_wanted; ++i) {
    Scanned end;
    rest.want(i % 4 >= 2);
    const Items items = scan({}, 1024, &end);
    if (!end.done) continue;
    ++whole;
    ASSERT_EQ(items.size(), 502u);
    const int a = std::stoi(items.front().second), z = std::stoi(items.back().second);
    ASSERT_TRUE(z == a || z == a + 1 || a == 0) << a << " " << z;
  }
  is_over = true;
  rest.want(false);
  writer.join();
  EXPECT_GT(whole, 0);
}

// A key that is added under one name and then removed under the other is never in neither place. `limit`: of the scans,
// which read the rest behind it if expired items have taken places.
void EmbeddedScan::move_a_key(std::size_t limit) {
  for (int i = 0; i < 900; ++i) ASSERT_EQ(session.set("m" + std::to_string(i), "fill"), Code::stored);
  ASSERT_EQ(session.set("a", "here"), Code::stored);
  std::atomic<bool> is_over{false};
  WritersRest rest;
  std::thread mover([&] {
    Session moves = store.session();
    while (!is_over) {
      moves.set("z", "there");
      rest.rest_if_wanted();
      moves.remove("a");
      moves.set("a", "here");
      rest.rest_if_wanted();
      moves.remove("z");
    }
  });
  int whole = 0;
  for (int i = 0; i < scans_max && whole < whole_wanted; ++i) {
    Scanned end;
    rest.want(i % 4 >= 2);
    const Items items = scan({.reverse = i % 2 == 1}, limit, &end);
    if (!end.done) continue;
    ++whole;
    std::size_t tokens = 0;
    for (const auto& item : items) tokens += item.first == "a" || item.first == "z" ? 1u : 0u;
    ASSERT_NE(tokens, 0u);
    ASSERT_EQ(items.size(), 900u + tokens);
  }
  is_over = true;
  rest.want(false);
  mover.join();
  EXPECT_GT(whole, 0);
}

TEST_P(EmbeddedScan, KeysAreOfOneMoment) { move_a_key(1024); }

// Hits that have expired lie between the two names, so that these are read in two parts.
TEST_P(EmbeddedScan, KeysBehindExpiredOnesAreOfThatMoment) {
  for (const char* key : {"b1", "b2", "b3", "y1", "y2", "y3"})
    ASSERT_EQ(session.set(key, "expired", {.ttl_s = -1}), Code::stored);
  move_a_key(902);
}

TEST_P(EmbeddedScan, ExpiredItemsDoNotCountTowardsTheLimit) {
  for (int i = 1000; i < 1400; ++i) ASSERT_EQ(session.set(std::to_string(i), "v", {.ttl_s = -1}), Code::stored);
  ASSERT_EQ(session.set("1399", "last"), Code::stored);
  ASSERT_EQ(session.set("1500", "next"), Code::stored);
  Scanned end;
  EXPECT_EQ(scan({}, 1, &end), (Items{{"1399", "last"}}));
  EXPECT_FALSE(end.done);
  EXPECT_EQ(end.last, "1399");
  EXPECT_EQ(scan({.reverse = true}, 2), (Items{{"1500", "next"}, {"1399", "last"}}));
  EXPECT_EQ(scan({}, 3, &end).size(), 2u);
  EXPECT_TRUE(end.done);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EmbeddedScan, testing::Values("ordered", "heterokv"),
                         [](const auto& kind) { return kind.param; });

TEST(EmbeddedScans, NeedAnOrder) {
  Store store(Options{.memory_bytes = std::uint64_t{16} << 20, .huge_pages = false, .preset = "cpu"});
  Session session = store.session();
  EXPECT_THROW(session.scan({}, 1, [](const ScannedItem&) {}), std::logic_error);
  EXPECT_THROW(session.remove_range({}), std::logic_error);
  std::vector<RangeScan> scans(2, {.range = {}, .limit = 1});
  EXPECT_THROW(session.scan_batch(scans, [](std::size_t, const ScannedItem&) {}), std::logic_error);
  EXPECT_THROW(session.arrange(), std::logic_error);
}

}  // namespace
}  // namespace tandem
