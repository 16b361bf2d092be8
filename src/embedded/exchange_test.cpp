// Writes that return the old item, in process: codes, batches, C; and chains, in which each value is returned once.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "base/platform.hpp"
#include "tandem/store.hpp"

namespace tandem::exchanges {
namespace {

Options small_options() {
  Options o;
  o.memory_bytes = std::uint64_t{64} << 20;
  o.item_bytes_max = std::uint64_t{8} << 20;
  o.huge_pages = false;
  return o;
}

TEST(Exchange, ReturnsTheOldItem) {
  Store store(small_options());
  Value old{"untouched", 77, 78};
  EXPECT_EQ(store.exchange("a", "one", old, {.flags = 5}), Code::stored);
  EXPECT_EQ(store.take("absent", old), Code::miss);
  EXPECT_EQ(store.exchange("", "x", old), Code::bad_key);
  EXPECT_EQ(store.take(std::string(251, 'k'), old), Code::bad_key);
  EXPECT_EQ(store.exchange("a", std::string(std::size_t{9} << 20, 'v'), old), Code::too_large);
  EXPECT_EQ(old.bytes, "untouched");
  EXPECT_EQ(old.flags, 77u);
  EXPECT_EQ(old.cas, 78u);
  Value seen;
  ASSERT_EQ(store.get("a", seen), Code::hit) << "one that is refused leaves the item";
  EXPECT_EQ(store.exchange("a", "two", old, {.ttl_s = 100, .flags = 6}), Code::hit);
  EXPECT_EQ(old.bytes, "one");
  EXPECT_EQ(old.flags, 5u);
  EXPECT_EQ(old.cas, seen.cas);
  ASSERT_EQ(store.get("a", seen), Code::hit);
  EXPECT_EQ(seen.bytes, "two");
  EXPECT_EQ(seen.flags, 6u);
  EXPECT_GT(seen.cas, old.cas);
  EXPECT_EQ(store.take("a", old), Code::removed);
  EXPECT_EQ(old.bytes, "two");
  EXPECT_EQ(old.flags, 6u);
  EXPECT_EQ(old.cas, seen.cas);
  EXPECT_EQ(store.get("a"), std::nullopt);
}

TEST(Exchange, ExpiredAndClearedItemsAreNone) {
  Store store(small_options());
  Value old;
  store.set("a", "one", {.ttl_s = -1});
  EXPECT_EQ(store.take("a", old), Code::miss);
  store.set("a", "one", {.ttl_s = -1});
  EXPECT_EQ(store.exchange("a", "two", old), Code::stored);
  store.clear();
  EXPECT_EQ(store.exchange("a", "three", old), Code::stored);
  store.clear();
  EXPECT_EQ(store.take("a", old), Code::miss);
  EXPECT_EQ(old.bytes, "");
}

struct Said {
  Code code;
  std::string value;
  bool operator==(const Said&) const = default;
};

// Sets before and behind rewrite items in place, also those that a hit or an old value of the same strip is of.
TEST(Exchange, InABatchEachSeesWhatCameBefore) {
  for (const std::size_t bytes : {4u, 1024u, 1025u, 70000u, 2u << 20}) {
    Store store(small_options());
    Session session = store.session();
    const auto value = [bytes](char c) { return std::string(bytes, c); };
    const std::string a = value('a'), b = value('b'), c = value('c'), d = value('d'), e = value('e');
    const std::vector<Request> requests = {{.action = Action::set, .key = "k", .value = a},
                                           {.action = Action::set, .key = "k", .value = b},
                                           {.action = Action::get, .key = "k"},
                                           {.action = Action::exchange, .key = "k", .value = c},
                                           {.action = Action::set, .key = "k", .value = d},
                                           {.action = Action::get, .key = "k"},
                                           {.action = Action::exchange, .key = "k", .value = e},
                                           {.action = Action::exchange, .key = "k", .value = a},
                                           {.action = Action::take, .key = "k"},
                                           {.action = Action::take, .key = "k"},
                                           {.action = Action::exchange, .key = "k", .value = b},
                                           {.action = Action::touch, .key = "k", .ttl_s = 100},
                                           {.action = Action::take, .key = "k"},
                                           {.action = Action::get, .key = "k"}};
    std::vector<Said> said;
    session.execute(requests, [&](std::size_t, const Reply& r) {
      said.push_back({r.code, std::string(r.value)});
      EXPECT_TRUE(r.value.empty() || r.key() == "k");
    });
    const std::vector<Said> expected = {{Code::stored, ""}, {Code::stored, ""}, {Code::hit, b},     {Code::hit, b},
                                        {Code::stored, ""}, {Code::hit, d},     {Code::hit, d},     {Code::hit, e},
                                        {Code::removed, a}, {Code::miss, ""},   {Code::stored, ""}, {Code::hit, ""},
                                        {Code::removed, b}, {Code::miss, ""}};
    EXPECT_TRUE(said == expected) << bytes;
  }
}

TEST(Exchange, AFullStoreThatKeepsRefusesAndLosesNothing) {
  Options options = small_options();
  options.memory_bytes = std::uint64_t{8} << 20;
  options.item_bytes_max = std::uint64_t{1} << 20;
  options.evict = false;
  Store store(options);
  const std::string value(300000, 'v');
  Value old;
  int stored = 0;
  while (store.exchange("k" + std::to_string(stored), value, old) == Code::stored) ++stored;
  ASSERT_GT(stored, 3);
  EXPECT_EQ(store.exchange("k0", std::string(300000, 'w'), old), Code::out_of_memory);
  for (int i = 0; i < stored; ++i) {
    EXPECT_EQ(store.take("k" + std::to_string(i), old), Code::removed);
    EXPECT_TRUE(old.bytes == value);
  }
  EXPECT_EQ(store.exchange("k0", value, old), Code::stored);
}

TEST(ExchangeInC, ReturnsTheOldItem) {
  tandem_options options;
  tandem_options_init(&options, sizeof options);
  options.memory_bytes = std::uint64_t{16} << 20;
  options.huge_pages = 0;
  tandem_store* const store = tandem_open(&options, nullptr, 0);
  ASSERT_NE(store, nullptr);
  tandem_value old{};
  EXPECT_EQ(tandem_exchange(store, "a", 1, "one", 3, 0, 5, &old), TANDEM_STORED);
  EXPECT_EQ(old.bytes, nullptr);
  EXPECT_EQ(tandem_exchange(store, "a", 1, "", 0, 0, 6, &old), TANDEM_HIT);
  EXPECT_EQ(std::string_view(old.bytes, old.size), "one");
  EXPECT_EQ(old.flags, 5u);
  const char* const kept = old.bytes;
  EXPECT_EQ(tandem_take(store, "a", 1, &old), TANDEM_REMOVED);
  EXPECT_EQ(old.size, 0u);
  EXPECT_EQ(old.flags, 6u);
  EXPECT_EQ(old.bytes, kept) << "its memory is used again";
  EXPECT_EQ(tandem_take(store, "a", 1, &old), TANDEM_MISS);
  EXPECT_EQ(tandem_exchange(store, "a", 1, "two", 3, 0, 0, nullptr), TANDEM_STORED);
  EXPECT_EQ(tandem_exchange(store, "a", 1, "two", 3, 0, 0, nullptr), TANDEM_HIT) << "without a wish for the old one";
  EXPECT_EQ(tandem_take(store, "a", 1, nullptr), TANDEM_REMOVED);
  EXPECT_EQ(tandem_exchange(store, "", 0, "x", 1, 0, 0, &old), TANDEM_BAD_KEY);
  EXPECT_EQ(tandem_take(store, nullptr, 0, &old), TANDEM_BAD_KEY);
  tandem_value_free(&old);

  std::vector<tandem_request> requests(3);
  for (tandem_request& r : requests) {
    r.action = TANDEM_EXCHANGE;
    r.key = "a";
    r.value = "1";
    r.key_bytes = r.value_bytes = 1;
  }
  requests[1].value = "2";
  requests[2].action = TANDEM_TAKE;
  std::string said;
  const auto visit = [](void* to, std::size_t, const tandem_reply* r) {
    *static_cast<std::string*>(to) += std::to_string(r->code) + std::string(r->value, r->value_bytes) + " ";
  };
  EXPECT_EQ(tandem_execute(store, requests.data(), requests.size(), visit, &said), TANDEM_HIT);
  EXPECT_EQ(said, "2 01 52 ");
  requests[0].action = TANDEM_TAKE + 1;
  EXPECT_EQ(tandem_execute(store, requests.data(), 1, visit, &said), TANDEM_BAD_REQUEST);
  tandem_close(store);
}

// --- chains

struct Kind {
  const char* name;
  const char* preset;
  bool ordered;
  unsigned gpus;
  std::uint64_t gpu_value_bytes;
  const char* index = "";
};

class ExchangeChains : public testing::TestWithParam<Kind> {};

// What a thread has written and what was handed to it.
struct Hands {
  std::vector<std::string> given, got;
};

// A value names its thread. Some are longer than what is rewritten in place, or is copied to a reply.
std::string value_of(std::size_t thread, std::size_t number) {
  std::string value = std::to_string(thread) + "." + std::to_string(number) + ".";
  constexpr std::size_t lengths[] = {16, 16, 40, 900, 1500, 20000};
  value.resize(std::max(value.size(), lengths[number % 64 < 59 ? number % 3 : number % 64 - 59 + 1]), '-');
  return value;
}

void play(Store& store, std::size_t thread, Hands& hands) {
  constexpr std::size_t rounds = is_sanitized ? 1000 : 4000, keys = 5;
  Session session = store.session();
  Value old;
  std::vector<std::string> values, names;
  for (std::size_t i = 0, number = 0; i < rounds; ++i) {
    const std::string key = "chain" + std::to_string((i * 7 + thread) % keys);
    if (i % 3 != 0) {
      hands.given.push_back(value_of(thread, number++));
      if (session.exchange(key, hands.given.back(), old) == Code::hit) hands.got.push_back(old.bytes);
      session.touch(key, 1000);  // changes a version that another exchange may have judged
      continue;
    }
    // A batch, with reads between the writes.
    std::vector<Request> requests;
    values.clear();
    names.clear();
    for (std::size_t j = 0; j < 12; ++j) {
      names.push_back("chain" + std::to_string((i + j * j) % keys));
      values.push_back(value_of(thread, number++));
    }
    for (std::size_t j = 0; j < names.size(); ++j) {
      const Action action = j % 4 == 1 ? Action::get : j % 4 == 3 ? Action::take : Action::exchange;
      if (action == Action::exchange) hands.given.push_back(values[j]);
      requests.push_back({.action = action, .key = names[j], .value = values[j]});
    }
    session.execute(requests, [&](std::size_t n, const Reply& r) {
      if (requests[n].action != Action::get && (r.code == Code::hit || r.code == Code::removed))
        hands.got.emplace_back(r.value);
    });
  }
}

TEST_P(ExchangeChains, ReturnEachValueOnce) {
  const Kind& kind = GetParam();
  Options options = small_options();
  options.preset = kind.preset;
  options.index = kind.index;
  options.ordered = kind.ordered;
  options.gpus = kind.gpus;
  options.gpu = "sim";
  options.gpu_value_bytes = kind.gpu_value_bytes;
  Store store(options);
  std::vector<Hands> hands(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < hands.size(); ++t) threads.emplace_back([&, t] { play(store, t, hands[t]); });
  for (std::thread& t : threads) t.join();
  std::vector<std::string> given, got;
  for (const Hands& h : hands) {
    given.insert(given.end(), h.given.begin(), h.given.end());
    got.insert(got.end(), h.got.begin(), h.got.end());
  }
  Value left;
  for (int k = 0; k < 5; ++k) {
    if (store.take("chain" + std::to_string(k), left) == Code::removed) got.push_back(left.bytes);
  }
  EXPECT_EQ(store.stats().evictions, 0u) << "what is evicted nobody gets";
  std::ranges::sort(given);
  std::ranges::sort(got);
  ASSERT_EQ(got.size(), given.size());
  EXPECT_TRUE(got == given);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ExchangeChains,
    testing::Values(Kind{"cuckoo", "cpu", false, 0, 0}, Kind{"ordered", "cpu", true, 0, 0},
                    Kind{"set_associative", "memcachedgpu", false, 0, 0}, Kind{"hash_tree", "heterokv", false, 0, 0},
                    Kind{"slab_list", "cpu", false, 0, 0, "slab_list"}, Kind{"mirrored", "mirrored", false, 1, 0},
                    Kind{"values", "mirrored", false, 1, 4 << 20}, Kind{"on_device", "mega-kv", false, 1, 0},
                    Kind{"hot_keys", "kvcg", false, 1, 0}, Kind{"shards", "mirrored", false, 2, 0}),
    [](const testing::TestParamInfo<Kind>& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace tandem::exchanges
