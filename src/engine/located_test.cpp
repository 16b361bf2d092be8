// Where a device has located the keys of requests, the lane's replies are the general path's, to the byte, whatever has
// become of the items since, and so are the counters: beside a replica, and where the device alone has the index.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine_fixture.hpp"
#include "engine/frames_harness.hpp"
#include "engine/lane_input_fixture.hpp"
#include "index/cuckoo/colliding_keys.hpp"

namespace tandem {
namespace {

using std::string;
using namespace lane_test;  // NOLINT(google-build-using-namespace): the test's own

struct LocatedHarness : FramesHarness {
  static constexpr std::size_t usual_output_bytes = 1 << 20;

  explicit LocatedHarness(const Plan& plan, const ProtocolOptions& options = {},
                          const EngineOptions& engine = codec::ReplyHarness::small_engine(),
                          std::uint32_t keys = FramesHarness::keys_max)
      : FramesHarness(options, engine, keys, plan) {
    output_bytes = usual_output_bytes;
  }
};

// Whether only the device has the index.
struct Located : testing::TestWithParam<bool> {
  static bool is_alone() { return GetParam(); }
  static const Plan& plan() { return is_alone() ? plan_located_index : plan_located; }
};
INSTANTIATE_TEST_SUITE_P(Of, Located, testing::Bool(),
                         [](const auto& is_alone) { return is_alone.param ? "IndexOnDevice" : "Replica"; });

string key_number(std::size_t n) { return "key" + std::to_string(n); }

void expect_equal(FramesHarness& harness, const string& input) {
  const auto [with, without] = harness.exchange(input);
  ASSERT_EQ(with, without) << input;
}

TEST_P(Located, AnswerAsTheGeneralPathDoes) {
  constexpr std::size_t sets_percent[] = {2, 5, 50};
  constexpr unsigned seeds = is_sanitized ? 16 : 40;
  std::uint64_t located = 0, all = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    EngineOptions engine = codec::ReplyHarness::small_engine();
    if (seed % 7 == 6) engine.eviction = "s3-fifo";
    engine.ordered = seed % 4 == 3 && !is_alone();
    ProtocolOptions options;
    options.cas = seed % 5 != 0;
    LocatedHarness harness(plan(), options, engine);
    if (seed % 2 == 0) harness.output_bytes = 4096;  // so that runs of the lane end in the middle
    const Mix mix{seed % 2 == 0 ? 1000u : 15u, sets_percent[seed % 3], seed % 8 < 2 ? 40u : 3u};
    compare_frames(harness, random, mix, seed % 5 == 4 ? 3 : 0, [&] { return some_input(random, false, mix); });
    if (HasFatalFailure()) return;
    located += harness.keys_of_device;
    all += harness.counters_with().cmd_get.get();
  }
  EXPECT_GT(located, all / 20) << all;  // of which few lines are whole, and fewer hits
}

// Every request for a stored key in a line that the device takes, wherever misses and other reads stand between. Where
// it alone has the index, misses, too.
TEST_P(Located, LeavesNoKeyThatIsStored) {
  LocatedHarness harness(plan());
  Random random(3);
  string sets;
  for (std::size_t i = 0; i < 200; ++i) sets += set_line(key_number(i), string(1 + i % 90, 'v'));
  expect_equal(harness, sets);
  const std::uint64_t before = harness.keys_of_device;
  std::uint64_t keys = 0;
  string input;
  for (int i = 0; i < 3000; ++i) {
    const string key = key_number(random.below(200));
    switch (random.below(12)) {
      case 0:
        input += random.one_in(2) ? set_line(key, "new") : "ms " + key + " 3\r\nnew\r\n";
        ++keys;
        break;
      case 1:
        input += "get nothing" + key + "\r\n";
        if (is_alone()) ++keys;
        break;
      case 2:
        if (!is_alone()) input += "mg " + key + " v K\r\n";  // the lane's alone
        break;
      case 3:
        input += "gets " + key + "\r\n";
        ++keys;
        break;
      case 4: {
        input += "get";
        for (std::size_t n = 2 + random.below(14); n != 0; --n, ++keys) input += " " + key_number(random.below(200));
        input += "\r\n";
        break;
      }
      case 5:
      case 6:
        input += "mg " + key + " v\r\n";
        ++keys;
        break;
      default:
        input += "get " + key + "\r\n";
        ++keys;
    }
  }
  expect_equal(harness, input);
  EXPECT_EQ(harness.keys_of_device - before, keys);
  expect_same_counters(harness);
}

// One connection reads what it has set, and what was there before that.
TEST_P(Located, KeepTheOrderOfOneConnection) {
  LocatedHarness harness(plan());
  expect_equal(harness, set_line("a", "1") + set_line("b", "1"));
  string input;
  for (int i = 2; i < 60; ++i) {
    input += "get a\r\nget b\r\n" + set_line("a", std::to_string(i * i * i)) + "mg a v\r\nget b a\r\n" +
             set_line(i % 2 == 0 ? "b" : "c", string(static_cast<std::size_t>(i), 'x')) + "get c b\r\n";
  }
  expect_equal(harness, input);
  EXPECT_GT(harness.keys_of_device, 300u);
}

// Lines of several keys that the device has left, which end anywhere in a strip, before lines that it has located.
TEST_P(Located, GoOnBehindLinesOfManyKeys) {
  for (std::size_t before = 0; before < 9; ++before) {
    for (const std::size_t keys : {17u, 18u, 23u, 24u, 25u, 40u}) {
      LocatedHarness harness(plan());
      expect_equal(harness, set_line("a", "1") + set_line("b", "2"));
      string input, many = "get";
      for (std::size_t i = 0; i < before; ++i) input += "get a\r\n";
      for (std::size_t i = 0; i < keys; ++i) many += i % 2 == 0 ? " a" : " b";
      input += many + "\r\n" + "get a " + string(245, 'k') + " b\r\nget b\r\ngets a b\r\n" + many +
               "\r\nmg a v\r\nget b a b\r\n";
      expect_equal(harness, input);
      EXPECT_EQ(harness.keys_of_device, before + (is_alone() ? 0 : 7)) << "what it leaves ends the lane's part";
    }
  }
}

TEST_P(Located, TakeNoValueForARequest) {
  LocatedHarness harness(plan());
  expect_equal(harness, set_line("a", "1") + set_line("b", "2") + set_line("x", "1"));
  string many;
  for (int i = 0; i < 20; ++i) many += "get a\r\nget b\r\n";
  const string inputs[] = {
      "get a\r\n" + set_line("x", many) + "get b\r\nget x\r\n",
      set_line("x", "\r\nget a\r\nget b\r\n") + many + "get x\r\n",
      "get b\r\nset x 0 0 2\r\nget a\r\nget b\r\n" + many,
      many + "set x 0 0 4000\r\n" + many,
  };
  for (const string& input : inputs) {
    expect_equal(harness, input);
    if (HasFatalFailure() || harness.closed()) break;
  }
}

// The host answers some time after the device has searched: other threads have changed the store since.
TEST_P(Located, SeesWhatHasChangedSince) {
  string sets, gets;
  for (std::size_t i = 0; i < 120; ++i) {
    sets += set_line(key_number(i), "value" + std::to_string(i));
    gets += i % 3 == 0 ? "mg " + key_number(i) + " v\r\n" : "get " + key_number(i) + " " + key_number(i / 2) + "\r\n";
  }
  struct Case {
    const char* what;
    std::function<void(FramesHarness&)> change;
  };
  const auto for_keys = [](FramesHarness& harness, auto request) {
    string all;
    for (std::size_t i = 0; i < 120; i += 2) all += request(key_number(i));
    harness.exchange_beside(all);
  };
  const Case cases[] = {
      {"rewritten in place",
       [&](FramesHarness& h) { for_keys(h, [](const string& k) { return set_line(k, "VALUE" + k.substr(3)); }); }},
      {"replaced",
       [&](FramesHarness& h) { for_keys(h, [](const string& k) { return set_line(k, string(500, 'n')); }); }},
      {"huge now",
       [&](FramesHarness& h) { for_keys(h, [](const string& k) { return set_line(k, string(20'000, 'h')); }); }},
      {"deleted", [&](FramesHarness& h) { for_keys(h, [](const string& k) { return "delete " + k + "\r\n"; }); }},
      {"deleted, and set again",
       [&](FramesHarness& h) {
         for_keys(h, [](const string& k) { return "delete " + k + "\r\n" + set_line(k, "again"); });
       }},
      {"stale", [&](FramesHarness& h) { for_keys(h, [](const string& k) { return "md " + k + " I T30\r\n"; }); }},
      {"flushed", [](FramesHarness& h) { h.exchange_beside("flush_all\r\n"); }},
      {"expired",
       [&](FramesHarness& h) {
         for_keys(h, [](const string& k) { return "touch " + k + " 5\r\n"; });
         h.set_time(codec::ReplyHarness::start_s + 10);
       }},
      {"other keys in their slots",
       [&](FramesHarness& h) {
         for_keys(h, [](const string& k) { return "delete " + k + "\r\n"; });
         for_keys(h, [](const string& k) { return set_line("other" + k, "value" + k.substr(3)); });
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    LocatedHarness harness(plan());
    expect_equal(harness, sets);
    bool has_changed = false;
    harness.launched = [&](std::span<LocatedKey> keys) {
      if (std::exchange(has_changed, true)) return;
      ASSERT_EQ(keys.size(), 200u);
      c.change(harness);
    };
    expect_equal(harness, gets);
    harness.launched = {};
    expect_equal(harness, gets);
    expect_same_counters(harness);
  }
}

// Beside a replica a candidate may be any item: the host compares keys.
TEST(LocatedInReplica, AnswersRightlyFromWrongCandidates) {
  Random random(5);
  string sets, gets;
  for (std::size_t i = 0; i < 100; ++i) sets += set_line(key_number(i) + string(i % 40, 'x'), string(1 + i, 'v'));
  for (std::size_t i = 0; i < 300; ++i) {
    const std::size_t n = random.below(110);
    if (i % 5 == 0) gets += set_line(key_number(n) + string(n % 40, 'x'), string(1 + n, 'w'));
    gets += (i % 4 == 0 ? "mg " : "get ") + key_number(n) + string(n % 40, 'x') + (i % 4 == 0 ? " v\r\n" : "\r\n");
  }
  for (int round = 0; round < 4; ++round) {
    LocatedHarness harness(plan_located);
    expect_equal(harness, sets);
    harness.launched = [&](std::span<LocatedKey> keys) {
      ASSERT_GT(keys.size(), 250u);
      const Location first = keys[0].location;
      for (std::size_t i = 0; i + 1 < keys.size(); ++i) {
        if (round == 0 || (round == 1 && i % 2 == 0)) keys[i].location = keys[i + 1].location;
        if (round == 2) keys[i].location = first;
        if (round == 3 && i % 8 == 7) keys[i].location = no_location;
      }
    };
    expect_equal(harness, gets);
    expect_same_counters(harness);
  }
}

// Sets that later ones of the ring overwrite are deferred, where the host has the index; located reads between them are
// not passed.
TEST_P(Located, DefersSetsAsWithoutADevice) {
  LocatedHarness harness(plan());
  harness.always_defer();
  expect_equal(harness, set_line("hot", "0000") + set_line("warm", "0000"));
  Random random(9);
  string input;
  for (int i = 0; i < 2000; ++i) {
    const char* const key = random.one_in(3) ? "warm" : "hot";
    input += random.one_in(2) ? set_line(key, std::to_string(1000 + i)) : "get " + string(key) + "\r\n";
  }
  expect_equal(harness, input);
  expect_same_counters(harness);
  EXPECT_EQ(harness.counters_with().set_overwritten.get() != 0, !is_alone());
}

// The host searches for rows between located keys; where it has no index, they end the lane's part.
TEST_P(Located, AnswersBehindRows) {
  LocatedHarness harness(plan());
  expect_equal(harness, set_line("x", "1") + set_line("y", "v") + set_line("z", "w"));
  string input;
  std::size_t gets = 0;
  for (const char* row : {"mg x k t f v\r\n", "touch x 0\r\n", "mn\r\n", "incr x 1\r\n", "ms x 1 c T0\r\n5\r\n",
                          "gat 0 x y\r\n", "append x 0 0 18\r\n1\r\nget y\r\nmg y v\r\n\r\n"}) {
    for (std::size_t i = 0; i < 9; ++i, ++gets) input += i % 2 == 0 ? "get y\r\n" : "get z\r\n";
    input += row;
  }
  const std::uint64_t before = harness.keys_of_device;
  expect_equal(harness, input);
  expect_same_counters(harness);
  if (!is_alone()) {
    EXPECT_EQ(harness.keys_of_device - before, gets);
  }
}

TEST_P(Located, AnswersManyConnections) {
  LocatedHarness harness(plan());
  Random random(11);
  string sets;
  for (std::size_t i = 0; i < 300; ++i) sets += set_line(key_number(i), string(1 + i % 60, 'v'));
  expect_equal(harness, sets);
  for (int round = 0; round < 20; ++round) {
    std::vector<string> streams(1 + random.below(40));
    for (std::size_t s = 0; s < streams.size(); ++s) {
      for (std::size_t n = 1 + random.below(round % 2 == 0 ? 17 : 60); n != 0; --n) {
        const string key = key_number(random.below(310));
        if (random.one_in(20)) {
          streams[s] += set_line("own" + std::to_string(s), string(random.below(9), 'w'));
        } else {
          streams[s] += random.one_in(9)   ? "get " + key + " " + key_number(random.below(310)) + "\r\n"
                        : random.one_in(5) ? "mg " + key + " v\r\n"
                                           : "get " + key + "\r\n";
        }
      }
    }
    const auto answers = harness.exchange_streams(streams);
    for (std::size_t s = 0; s < streams.size(); ++s) ASSERT_EQ(answers[s].with, answers[s].without) << streams[s];
  }
  expect_same_counters(harness);
}

// More keys than the device has room for: one for each 8 bytes of input.
TEST_P(Located, LeaveWhatHasNoRoom) {
  constexpr std::size_t lines = 3000, keys_of_line = 16;
  LocatedHarness harness(plan());
  expect_equal(harness, set_line("a", "1"));
  string line = "get", gets;
  for (std::size_t i = 0; i < keys_of_line; ++i) line += " a";
  for (std::size_t i = 0; i < lines; ++i) gets += line + "\r\n";
  expect_equal(harness, gets);
  if (!is_alone()) {
    EXPECT_LE(harness.keys_of_device, FramesHarness::arena_bytes / sizeof(LocatedKey));
  }
  EXPECT_GT(harness.keys_of_device, FramesHarness::arena_bytes / sizeof(LocatedKey) / 2);
  EXPECT_GT(harness.left[static_cast<std::size_t>(FrameLeft::room)], lines / 2);
}

// --- the index on the device alone

// Two keys that the device cannot tell apart: one is in its table, the other one in the overlay, and the first one's
// item is the candidate of both.
TEST(LocatedInIndexOnDevice, ACandidateOfAnotherKeyIsNone) {
  constexpr std::uint64_t seed = 1;
  EngineOptions engine = codec::ReplyHarness::small_engine();
  engine.memory_bytes = std::uint64_t{4} << 20;
  engine.hash_seed = seed;
  engine.devices = {make_sim_device({.memory_bytes = 8 << 10})};  // room for the smallest table
  LocatedHarness harness(plan_located_index, {}, engine);
  const auto [a, b] = colliding_keys(seed, 1)[0];
  expect_equal(harness, set_line(a, "a0"));
  ASSERT_TRUE(soon([&] { return !harness.placement_with().has_unretired(); })) << "the device has it";
  bool have_one_candidate = false;
  harness.launched = [&](std::span<LocatedKey> keys) {
    have_one_candidate |=
        keys.size() == 8 && keys[0].location != no_location &&
        std::ranges::all_of(keys, [&](const LocatedKey& k) { return k.location == keys[0].location; });
  };
  for (int round = 0; round < 4; ++round) {
    const string n = std::to_string(round);
    expect_equal(harness, "get " + a + "\r\nget " + b + "\r\n" + set_line(b, "b" + n) + "mg " + a + " v\r\n" +
                              set_line(a, "A" + n) + "gets " + b + "\r\nget " + a + " " + b + "\r\n");
  }
  EXPECT_TRUE(have_one_candidate);
  expect_same_counters(harness);
  EXPECT_EQ(harness.counters_with().get_misses.get(), 1u) << "of the first round";
}

// What the launch did not know yet, the overlay knows: a new key's item, and a removal.
TEST(LocatedInIndexOnDevice, AMissIsConfirmed) {
  LocatedHarness harness(plan_located_index);
  string gets, sets;
  for (std::size_t i = 0; i < 200; ++i) {
    gets += i % 3 == 0 ? "mg " + key_number(i) + " v\r\n" : "get " + key_number(i) + "\r\n";
    sets += set_line(key_number(i), "value" + std::to_string(i));
  }
  std::size_t missed = 0;
  bool is_set = false;
  harness.launched = [&](std::span<LocatedKey> keys) {
    missed += static_cast<std::size_t>(std::ranges::count(keys, no_location, &LocatedKey::location));
    if (!std::exchange(is_set, true)) harness.exchange_beside(sets);
  };
  expect_equal(harness, "mn\r\n");
  const std::uint64_t located_before = harness.keys_of_device;
  expect_equal(harness, gets);
  EXPECT_EQ(missed, 200u);
  // The lane has answered, but for those whose sets only the device knows by now.
  EXPECT_GE(harness.keys_of_device - located_before, 100u);
  EXPECT_EQ(harness.counters_with().get_misses.get(), 0u);
  expect_equal(harness, gets + "delete key7\r\n" + gets);
  expect_same_counters(harness);
}

// The lane waits for the index, which ends the flight's epoch: it asks for no candidate any more.
TEST(LocatedInIndexOnDevice, AnswersWhenTheDeviceIsLostMeanwhile) {
  string sets, gets;
  for (std::size_t i = 0; i < 300; ++i) {
    sets += set_line(key_number(i), "value" + std::to_string(i));
    gets += i % 7 == 0 ? set_line(key_number(i + 20), "VALUE" + std::to_string(i)) : "get " + key_number(i) + "\r\n";
  }
  for (const bool is_noticed : {false, true}) {
    const std::shared_ptr<SimDevice> device = make_sim_device({.memory_bytes = std::uint64_t{256} << 20});
    EngineOptions engine = codec::ReplyHarness::small_engine();
    engine.devices = {device};
    LocatedHarness harness(plan_located_index, {}, engine);
    expect_equal(harness, sets);
    const std::uint64_t before = harness.keys_of_device;
    harness.launched = [&](std::span<LocatedKey> keys) {
      ASSERT_EQ(keys.size(), 300u);
      device->lose();
      if (is_noticed) {
        ASSERT_TRUE(soon([&] { return !harness.placement_with().can_search(); }));
      }
    };
    expect_equal(harness, gets);
    EXPECT_TRUE(soon([&] { return !harness.placement_with().wants_search(); }));
    if (is_noticed) {
      EXPECT_EQ(harness.keys_of_device, before);
    }
    EXPECT_EQ(harness.ask_lane(gets), harness.ask_host(gets)) << "from the host's index";
    expect_same_counters(harness);
  }
}

}  // namespace
}  // namespace tandem
