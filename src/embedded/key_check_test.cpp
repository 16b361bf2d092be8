// Embedded reads with keys compared by the caller: the only wrong answer is another key's item, and with the helper
// there is none.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/engine_fixture.hpp"
#include "index/cuckoo/colliding_keys.hpp"
#include "lane/calls.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t hash_seed = 3;

Options small_store() {
  return {.memory_bytes = std::uint64_t{16} << 20,
          .item_bytes_expected = 1 << 20,  // the smallest index
          .huge_pages = false,
          .hash_seed = hash_seed};
}

const std::vector<CollidingKeys>& pairs() {
  static const std::vector<CollidingKeys> all = colliding_keys(hash_seed, 4);
  return all;
}

// One read of `key`: its item's key and value; empty: a miss.
std::pair<std::string, std::string> read_item(Store& store, std::string_view key, KeyCheck check) {
  std::pair<std::string, std::string> found;
  store.get_batch(
      {&key, 1},
      [&](std::size_t, const Reply& r) {
        if (r.code == Code::hit) found = {std::string(r.key()), std::string(r.value)};
      },
      check);
  return found;
}

TEST(KeyCheck, RepliesSayWhoseItemTheyAre) {
  Store store(small_store());
  const auto& [a, b] = pairs()[0];
  store.set(a, "value of a", {.flags = 7});
  store.set(b, "value of b");
  ASSERT_EQ(store.get(a), "value of a");
  ASSERT_EQ(store.get(b), "value of b");
  using Found = std::pair<std::string, std::string>;
  EXPECT_EQ(read_item(store, a, KeyCheck::caller), Found(a, "value of a"));
  EXPECT_EQ(read_item(store, b, KeyCheck::caller), Found(a, "value of a"));
  EXPECT_EQ(read_item(store, b, KeyCheck::store), Found(b, "value of b"));
  EXPECT_EQ(read_item(store, "other", KeyCheck::caller), Found());
  EXPECT_EQ(read_item(store, "", KeyCheck::caller), Found());

  const Request requests[] = {
      {.key = b, .key_check = KeyCheck::caller}, {.action = Action::set, .key = "other", .value = "x"}, {.key = b}};
  std::vector<std::string> keys;
  store.execute(requests, [&](std::size_t i, const Reply& r) {
    keys.emplace_back(r.code == Code::hit ? r.key() : "");
    EXPECT_EQ(is_reply_to(requests[i].key, r), i != 0);
  });
  EXPECT_EQ(keys, (std::vector<std::string>{a, "", b}));

  std::unordered_map<std::string, std::string> seen;
  store.for_each([&](std::string_view key, const Reply& r) {
    EXPECT_EQ(r.key(), key);
    seen[std::string(key)] = r.value;
  });
  EXPECT_EQ(seen, (std::unordered_map<std::string, std::string>{{a, "value of a"}, {b, "value of b"}, {"other", "x"}}));
}

// Two keys of one signature and the same buckets, of other lengths.
TEST(KeyCheck, RepliesHaveTheLengthOfTheItemsKey) {
  const std::string names[] = {"key1666643", "another-key-1386552"};
  const auto place_of = [](const std::string& name) {
    const Fingerprint f = fingerprint_of(name, hash_seed);
    return std::pair(f.signature, f.hash % 64);
  };
  ASSERT_EQ(place_of(names[0]), place_of(names[1]));
  for (const std::string& stored : names) {
    Store store(small_store());
    store.set(stored, "its value");
    ASSERT_EQ(store.get(stored), "its value");
    for (const std::string& asked : names) {
      using Found = std::pair<std::string, std::string>;
      EXPECT_EQ(read_item(store, asked, KeyCheck::caller), Found(stored, "its value"));
      EXPECT_EQ(read_item(store, asked, KeyCheck::store), asked == stored ? Found(stored, "its value") : Found());
    }
  }
}

TEST(KeyCheck, LargeItemsHaveTheirKeysToo) {
  Store store({.memory_bytes = std::uint64_t{64} << 20, .item_bytes_max = std::uint64_t{8} << 20, .huge_pages = false});
  const std::string value(4 << 20, 'v');
  store.set("large", value);
  store.get("large");
  const auto found = read_item(store, "large", KeyCheck::caller);
  EXPECT_EQ(found.first, "large");
  EXPECT_TRUE(found.second == value);
}

TEST(KeyCheck, CheckedReadsAreExact) {
  Store store(small_store());
  std::unordered_map<std::string, std::string> model;
  std::vector<std::string> names;
  for (const CollidingKeys& pair : pairs()) names.insert(names.end(), {pair.a, pair.b});
  std::mt19937 random(1);
  std::uint64_t again = 0;
  for (int round = 0; round < 200; ++round) {
    for (std::size_t i = random() % 4; i != 0; --i) {
      const std::string& name = names[random() % names.size()];
      if (random() % 3 == 0) {
        store.remove(name);
        model.erase(name);
      } else {
        model[name] = std::to_string(random());
        store.set(name, model[name]);
      }
    }
    // More keys than are read at once, and some that no item can have.
    std::vector<std::string_view> keys;
    for (std::size_t i = random() % 3000; i != 0; --i)
      keys.push_back(random() % 50 == 0 ? std::string_view() : names[random() % names.size()]);
    std::vector<unsigned> visits(keys.size());
    again += store.get_batch_checked(keys, [&](std::size_t i, const Reply& r) {
      ++visits[i];
      const auto expected = model.find(std::string(keys[i]));
      if (keys[i].empty()) {
        EXPECT_EQ(r.code, Code::bad_key);
      } else if (expected == model.end()) {
        EXPECT_EQ(r.code, Code::miss);
      } else {
        ASSERT_EQ(r.code, Code::hit);
        EXPECT_EQ(r.key(), keys[i]);
        EXPECT_EQ(r.value, expected->second);
      }
    });
    EXPECT_EQ(visits, std::vector<unsigned>(keys.size(), 1));
  }
  EXPECT_GT(again, 1000u) << "the pairs did not collide";
}

// Writers of one key of a pair, readers of both: a reader never sees a value of the other key, nor an older value after
// a newer one.
TEST(KeyCheck, CheckedReadsAreExactBesideWriters) {
  Store store(small_store());
  const auto& [a, b] = pairs()[0];
  store.set(a, "a0");
  store.set(b, "b0");
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> again{0};
  std::thread writer([&] {
    Session session = store.session();
    for (std::uint64_t n = 1; !stop; ++n) {
      session.set(n % 2 == 0 ? a : b, (n % 2 == 0 ? "a" : "b") + std::to_string(n));
      // So that the key's next read need not write to it.
      session.get(n % 2 == 0 ? a : b);
    }
  });
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      Session session = store.session();
      const std::vector<std::string_view> keys{a, b, a, b};
      std::uint64_t last[2] = {};
      for (int round = 0; round < 20'000 || (again == 0 && round < 5'000'000); ++round) {
        std::uint64_t now[2] = {};
        again += session.get_batch_checked(keys, [&](std::size_t i, const Reply& reply) {
          ASSERT_EQ(reply.code, Code::hit);
          ASSERT_EQ(reply.value.front(), i % 2 == 0 ? 'a' : 'b');
          now[i % 2] = std::max<std::uint64_t>(now[i % 2], std::stoull(std::string(reply.value.substr(1))));
        });
        for (int k = 0; k < 2; ++k) {
          EXPECT_GE(now[k], last[k]);
          last[k] = now[k];
        }
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  stop = true;
  writer.join();
  EXPECT_GT(again, 0u);
}

// --- what may not be taken for the answer, though nobody compares

class CallerCompares : public testing::Test {
 protected:
  struct Found {
    std::string key, value;
    bool operator==(const Found&) const = default;
  };
  // empty: a miss.
  Found get(std::string_view key, KeyCheck check = KeyCheck::store) {
    Found found;
    const auto visit = [](void* to, std::size_t, std::span<const Reply> replies) {
      if (const Reply& r = replies.front(); r.code == Code::hit)
        *static_cast<Found*>(to) = {std::string(r.key()), std::string(r.value)};
    };
    lane_.run({&key, 1}, check, 0, visit, &found);
    return found;
  }
  Found get_any(std::string_view key) { return get(key, KeyCheck::caller); }
  void execute(const Request& request) {
    lane_.run({&request, 1}, 0, [](void*, std::size_t, std::span<const Reply>) {}, nullptr);
  }
  void set(std::string_view key, std::string_view value, std::int64_t ttl_s = 0) {
    execute({.action = Action::set, .key = key, .value = value, .ttl_s = ttl_s});
  }
  // `a` comes first, and both have been read.
  void set_both() {
    set(a, "value of a");
    ASSERT_EQ(get(a).key, a);
    set(b, "value of b");
    ASSERT_EQ(get(b).key, b);
  }
  Status invalidate(std::string_view key) {
    Query q = query_of(Opcode::remove, key);
    q.options = option::meta | option::invalidate;
    return run_alone(*context_, one_, q);
  }
  std::uint64_t state(const std::string& key) {
    EpochDomain::Participant epoch(engine_.shared().epochs);
    epoch.enter();
    ItemVersion seen;
    const Item* const item = engine_.shared().index.find(fingerprint_of(key, hash_seed), key, seen, no_location);
    epoch.exit();
    return item->state_acquire();
  }
  StoreTotals counters() const { return engine_.stats().counters; }

  const std::string& a = pairs()[0].a;
  const std::string& b = pairs()[0].b;
  Engine engine_{{.memory_bytes = std::uint64_t{16} << 20,
                  .item_bytes_expected = 1 << 20,
                  .huge_pages = false,
                  .hash_seed = hash_seed}};
  Engine::ContextPtr context_ = engine_.make_context();
  CallLane lane_{*context_};
  Batch one_{1};
};

TEST_F(CallerCompares, AnItemOfAnotherKeyIsNeverMarked) {
  engine_.shared().clock.freeze_for_test(1000);
  set(a, "value of a");
  set(b, "value of b");
  // `a` was not read yet: reading it sets its mark, so the keys are compared.
  EXPECT_EQ(get_any(b).key, b);
  EXPECT_EQ(word::Fetched::get(state(a)), 0u);
  EXPECT_EQ(get_any(b).key, b) << "still unread";
  get(a);
  EXPECT_EQ(get_any(b).key, a);
  // A minute later a read updates the access time.
  engine_.shared().clock.freeze_for_test(1060);
  EXPECT_EQ(get_any(b).key, b);
  EXPECT_EQ(word::AccessS::get(state(a)), 1000u);
}

TEST_F(CallerCompares, ItemsThatAreOverAreNeverAnswers) {
  engine_.shared().clock.freeze_for_test(1000);
  set_both();
  set(a, "short", 10);
  EXPECT_EQ(get(a).value, "short");
  engine_.shared().clock.freeze_for_test(1010);
  EXPECT_EQ(get_any(b), (Found{b, "value of b"}));
  EXPECT_EQ(get_any(a), Found());
  set(a, "again");
  get(a);
  engine_.flush_all(0);
  EXPECT_EQ(get_any(a), Found());
  EXPECT_EQ(get_any(b), Found());
}

TEST_F(CallerCompares, ReplacedAndRemovedItemsAreNeverAnswers) {
  set_both();
  set(a, "second value of a");
  EXPECT_EQ(get_any(a).value, "second value of a");
  execute({.action = Action::remove, .key = a});
  get(b);
  const Found of_a = get_any(a);
  EXPECT_TRUE(of_a == Found() || of_a.key == b);
  EXPECT_EQ(get(a), Found());
  EXPECT_EQ(get_any(b).value, "value of b");
}

TEST_F(CallerCompares, AStaleItemIsNeverAnotherKeysAnswer) {
  set_both();
  ASSERT_EQ(invalidate(a), Status::removed);
  EXPECT_EQ(get_any(b).key, b);
  EXPECT_EQ(get_any(a).key, a);
  EXPECT_EQ(get_any(b).key, b);
}

TEST_F(CallerCompares, CountsAsTheGetThatItIs) {
  set_both();
  const StoreTotals before = counters();
  get_any(b);
  get_any("other");
  EXPECT_EQ(counters().cmd_get, before.cmd_get + 2);
  EXPECT_EQ(counters().get_hits, before.get_hits + 1);
}

// Among writes in the same batch: the right answer, or an item that the other key of the pair had at some time of it.
TEST(KeyCheck, IsRightOrOfAnotherKeyOverRandomOperations) {
  Store store(small_store());
  std::mt19937 random(1);
  std::unordered_map<std::string, std::string> model;
  std::vector<std::string> names;
  for (const CollidingKeys& pair : pairs()) names.insert(names.end(), {pair.a, pair.b});
  std::uint64_t others = 0, right = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::size_t count = random() % 20 + 1;
    const bool reads_only = random() % 2 == 0;
    std::vector<std::string> values(count), expected(count);
    std::vector<Request> requests;
    std::unordered_map<std::string, std::vector<std::string>> had;
    for (const auto& [name, value] : model) had[name].push_back(value);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& name = names[random() % names.size()];
      const auto what = reads_only ? 9u : random() % 10;
      if (what < 2) {
        values[i] = model[name] = "v" + std::to_string(random());
        had[name].push_back(values[i]);
        requests.push_back({.action = Action::set, .key = name, .value = values[i]});
      } else if (what < 3) {
        model.erase(name);
        requests.push_back({.action = Action::remove, .key = name});
      } else {
        expected[i] = model.contains(name) ? model[name] : "";
        requests.push_back({.key = name, .key_check = random() % 3 != 0 ? KeyCheck::caller : KeyCheck::store});
      }
    }
    store.execute(requests, [&](std::size_t i, const Reply& r) {
      const Request& asked = requests[i];
      if (asked.action != Action::get) return;
      if (r.code == Code::miss) {
        EXPECT_EQ(expected[i], "");
      } else if (r.key() == asked.key) {
        EXPECT_EQ(r.value, expected[i]);
        right += asked.key_check == KeyCheck::caller ? 1 : 0;
      } else {
        EXPECT_EQ(asked.key_check, KeyCheck::caller);
        const std::vector<std::string>& of_other = had[std::string(r.key())];
        EXPECT_NE(std::ranges::find(of_other, r.value), of_other.end());
        ++others;
      }
    });
  }
  EXPECT_GT(others, 100u) << "the pairs did not collide";
  EXPECT_GT(right, 100u);
}

}  // namespace
}  // namespace tandem
