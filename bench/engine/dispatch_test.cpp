#include "bench/engine/dispatch.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <stdexcept>
#include <thread>

#include "bench/engine/engine.hpp"
#include "bench/engine/test_support.hpp"
#include "bench/engine/wire.hpp"
#include "engine/engine.hpp"
#include "index/hash_tree/hash_tree_index.hpp"

namespace tandem::bench {
namespace {

constexpr std::uint32_t stored_keys = 60'000;
constexpr std::size_t dispatched_bytes_max = std::size_t{4} << 20;

std::string numbered(std::uint32_t key) { return fmt::format("key-{:08}", key); }

// A store of the tree alone.
struct TreeStore {
  explicit TreeStore(std::uint32_t keys)
      : engine({.memory_bytes = std::uint64_t{128} << 20, .index_kind = "hash_tree"}) {
    std::string sets;
    for (std::uint32_t i = 0; i < keys; ++i) sets += fmt::format("set {} 0 0 8\r\n{:08}\r\n", numbered(i), i);
    if (keys == 0) return;
    EXPECT_EQ(answer(*driver(), sets).size(), keys * std::string_view("STORED\r\n").size());
  }
  HashTree& tree() { return engine.shared().index_as<HashTreeIndex>().tree(); }
  template <class Make>
  auto in_epoch(Make make) {
    const Engine::ContextPtr context = engine.make_context();
    context->enter();
    auto made = make();
    context->epoch.exit();
    return made;
  }
  std::unique_ptr<DispatchGroup> group(unsigned members) {
    return in_epoch([&] { return std::make_unique<DispatchGroup>(tree(), members, dispatched_bytes_max); });
  }
  std::unique_ptr<WireDriver> driver() {
    return std::make_unique<WireDriver>(engine, engine_plan("cpu"), WireProtocol::text, 1024, dispatched_bytes_max);
  }
  std::unique_ptr<WireDriver> member(DispatchGroup& group, unsigned number) {
    auto made = driver();
    made->join(group, number);
    return made;
  }
  static void run(WireDriver& driver, std::string_view requests) {
    const auto end = static_cast<std::uint32_t>(requests.size());
    driver.run({requests, {}, 0, {&end, 1}});
  }
  static std::string answer(WireDriver& driver, std::string_view requests) {
    std::string replies;
    driver.keep_replies(&replies);
    run(driver, requests);
    driver.finish();
    driver.keep_replies(nullptr);
    return replies;
  }

  Engine engine;
};

// Hits, misses, sets that replace and sets of new keys, with values of several lengths; one key often.
std::string mixed_requests(std::uint32_t seed, std::uint32_t count) {
  std::mt19937 generator(seed);
  const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
  std::string requests;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t kind = random() % 8, key = kind < 2 ? 77 : random() % (stored_keys + stored_keys / 4);
    if (kind % 2 == 0) {
      requests += fmt::format("get {}\r\n", numbered(key));
    } else {
      const std::string value(random() % 3 == 0 ? 8 : random() % 2000, static_cast<char>('a' + i % 26));
      requests += fmt::format("set {} {} 0 {}\r\n{}\r\n", numbered(key), random() % 3, value.size(), value);
    }
  }
  return requests;
}

TEST(LeafRanges, AreInTheOrderOfKeysAndAlikeInSize) {
  TreeStore store(stored_keys);
  const LeafRanges ranges = store.in_epoch([&] { return LeafRanges(store.tree()); });
  std::map<std::uint32_t, std::uint32_t> sizes;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < stored_keys; ++i) {
    const std::uint32_t range = ranges.range_of(numbered(i));
    ASSERT_GE(range, last) << i;
    last = range;
    ++sizes[range];
  }
  EXPECT_GT(sizes.size(), 50U);
  for (const auto& [range, size] : sizes) EXPECT_LT(size, stored_keys / 20) << range;
  for (const char* const low : {"", "a", "key-", "key-0"}) EXPECT_EQ(ranges.range_of(low), 0U) << low;
  EXPECT_EQ(ranges.range_of("key-99999999-and-more"), last);
}

TEST(LeafRanges, OneLeafIsOneRange) {
  TreeStore store(0);
  const LeafRanges ranges = store.in_epoch([&] { return LeafRanges(store.tree()); });
  EXPECT_EQ(ranges.range_of("a"), ranges.range_of("z"));
}

TEST(DispatchMember, RepliesComeInTheOrderOfTheRequests) {
  TreeStore store(stored_keys);
  const auto group = store.group(3);
  DispatchMember receiver(*group, 1);
  std::vector<std::unique_ptr<DispatchMember>> others;
  for (const unsigned number : {0U, 2U}) others.push_back(std::make_unique<DispatchMember>(*group, number));
  std::string requests, expected;
  for (std::uint32_t i = 0; i < 300; ++i) {
    requests += fmt::format("get {}\r\n", numbered(i * 191));
    expected += i % 3 == 0 ? "END\r\n"
                           : fmt::format("VALUE {} 0 {}\r\n{}\r\nEND\r\n", numbered(i * 191), i, std::string(i, 'v'));
  }
  const std::size_t request_bytes = requests.size();
  requests.append(lane_padding_bytes, '\0');
  const std::string_view input(requests.data(), request_bytes);
  receiver.post({&input, 1}, 42);
  EXPECT_FALSE(receiver.oldest_is_done());
  // Each answers its part, the receiver first.
  const auto answer = [](std::span<Parcel* const> parcels) {
    std::size_t lines = 0;
    for (Parcel* const parcel : parcels) {
      std::string_view left(parcel->requests.get(), parcel->request_bytes);
      for (; !left.empty(); ++lines) {
        const std::size_t end = left.find("\r\n");
        const std::string key(left.substr(4, end - 4));
        const auto i = static_cast<std::uint32_t>(std::stoul(key.substr(4))) / 191;
        parcel->replies +=
            i % 3 == 0 ? "END\r\n" : fmt::format("VALUE {} 0 {}\r\n{}\r\nEND\r\n", key, i, std::string(i, 'v'));
        left.remove_prefix(end + 2);
      }
    }
    return lines;
  };
  std::size_t lines = answer(receiver.take_parcels());
  receiver.finish_parcels();
  for (const auto& other : others) {
    EXPECT_FALSE(receiver.oldest_is_done());
    const std::size_t own = answer(other->take_parcels());
    EXPECT_GT(own, 50U);
    lines += own;
    other->finish_parcels();
    EXPECT_TRUE(other->take_parcels().empty());
  }
  EXPECT_EQ(lines, 300U);
  ASSERT_TRUE(receiver.oldest_is_done());
  EXPECT_TRUE(receiver.take_back().empty());
  Output out;
  const auto [queries, received_ticks] = receiver.take_replies(out);
  EXPECT_EQ(queries, 300U);
  EXPECT_EQ(received_ticks, 42U);
  EXPECT_EQ(std::string_view(out.data(), out.size()), expected);
  EXPECT_EQ(receiver.in_flight(), 0U);
}

TEST(DispatchMember, ParcelsAreExecutedInOrderByOneAtATime) {
  TreeStore store(stored_keys);
  const auto group = store.group(2);
  DispatchMember receiver(*group, 0), other(*group, 1);
  const std::string first = "get " + numbered(0) + "\r\n" + std::string(lane_padding_bytes, '\0');
  const std::string second = "set " + numbered(0) + " 0 0 1\r\nx\r\n" + std::string(lane_padding_bytes, '\0');
  for (const std::string* requests : {&first, &second}) {
    const std::string_view input(requests->data(), requests->size() - lane_padding_bytes);
    receiver.post({&input, 1}, 0);
  }
  const std::span<Parcel* const> taken = receiver.take_parcels();  // the first keys are the first member's
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(*taken[0]->requests.get(), 'g');
  EXPECT_EQ(*taken[1]->requests.get(), 's');
  receiver.finish_parcels();
  // What is held by one is not given to another.
  ASSERT_EQ(other.take_parcels().size(), 2U);
  EXPECT_TRUE(receiver.take_back().empty());
  EXPECT_EQ(receiver.taken_back(), 0U);
  other.finish_parcels();
  EXPECT_TRUE(receiver.oldest_is_done());
}

TEST(DispatchMember, OtherRequestsAreRefused) {
  TreeStore store(0);
  const auto group = store.group(1);
  for (const std::string_view request :
       {"gets a\r\n", "get a b\r\n", "get a", "set a 0 0 1 noreply\r\nx\r\n", "set a 0 0 9\r\nx\r\n", "delete a\r\n"}) {
    DispatchMember member(*group, 0);
    const std::string padded = std::string(request) + std::string(lane_padding_bytes, '\0');
    const std::string_view input(padded.data(), request.size());
    EXPECT_THROW(member.post({&input, 1}, 0), std::invalid_argument) << request;
  }
}

// A get that the lane leaves, as the item has expired, and behind it a set of the same key, which another batch has:
// both come together to the member that executes them.
TEST(Dispatched, WhatTheLaneLeavesIsExecutedInItsTurn) {
  TreeStore store(stored_keys);
  const std::string key = numbered(1);
  EXPECT_EQ(TreeStore::answer(*store.driver(), fmt::format("touch {} -1\r\n", key)), "TOUCHED\r\n");
  const auto group = store.group(2);
  const auto receiver = store.member(*group, 1), owner = store.member(*group, 0);  // of the lowest keys
  std::string replies;
  receiver->keep_replies(&replies);
  TreeStore::run(*receiver, fmt::format("get {0}\r\nget {1}\r\n", key, numbered(2)));
  TreeStore::run(*receiver, fmt::format("set {0} 0 0 1\r\nx\r\nget {0}\r\n", key));
  owner->answer_done();
  receiver->finish();
  EXPECT_EQ(owner->context().counters.get_hits.get(), 2U);
  EXPECT_EQ(replies, fmt::format("END\r\nVALUE {} 0 8\r\n00000002\r\nEND\r\nSTORED\r\nVALUE {} 0 1\r\nx\r\nEND\r\n",
                                 numbered(2), key));
}

// Beside a store that answers request by request. The other members work, or have gone.
TEST(Dispatched, AnswersTheSame) {
  for (const bool others_work : {true, false}) {
    TreeStore plain(stored_keys), store(stored_keys);
    const auto group = store.group(3);
    const auto driver = plain.driver(), receiver = store.member(*group, 1);
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> hits_of_others{0};
    std::vector<std::thread> threads;
    for (const unsigned number : {0U, 2U}) {
      if (!others_work) break;
      threads.emplace_back([&, number] {
        const auto member = store.member(*group, number);
        std::uint32_t seed = 100 * number;
        while (!stop.load()) {
          member->answer_done();
          // Of keys that no other thread asks for.
          TreeStore::run(*member, fmt::format("get other-{}\r\nset other-{} 0 0 1\r\nx\r\n", seed, seed));
          ++seed;
        }
        member->finish();
        hits_of_others += member->context().counters.get_hits.get();  // they ask for no stored key
      });
    }
    std::string expected, replies;
    receiver->keep_replies(&replies);
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
      const std::string requests = mixed_requests(seed, 1 + seed * 7);
      expected += TreeStore::answer(*driver, requests);
      TreeStore::run(*receiver, requests);
    }
    receiver->finish();
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(hits_of_others.load() != 0, others_work);
    EXPECT_TRUE(others_work || receiver->dispatch()->taken_back() != 0);
    EXPECT_EQ(replies.size(), expected.size());
    EXPECT_TRUE(replies == expected);
  }
}

TEST(Dispatched, BenchmarkComparesEveryReply) {
  for (const char* const workload : {"K8-V4-G95-S", "K8-V4-G5-S"}) {
    EngineSettings settings = quick({workload});
    settings.index = "hash_tree";
    settings.plan = "dispatched";
    settings.keys = 20'000;
    settings.threads = {3};
    Json document = new_document();
    run_engine(settings, document);
    EXPECT_EQ(errors_of(document), "");
    EXPECT_EQ(runs_of(document, "tandem").at(0)["result"]["ops"], 9000);
  }
}

}  // namespace
}  // namespace tandem::bench
