// Input for tests of the lane: commands that it takes and does not take, drawn from a seed.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>

#include "codec/packet_builder.hpp"
#include "engine/lane_harness.hpp"
#include "lane/state.hpp"

namespace tandem::lane_test {

// A kind of index and the name of an instruction set.
using LaneKind = std::tuple<std::string, std::string>;

inline auto every_lane() {
  return testing::Combine(testing::Values("cuckoo", "set_associative", "hash_tree", "slab_list"),
                          testing::Values("scalar", "avx2", "avx512", "avx512-vaes", "neon"));
}
inline std::string lane_name(const testing::TestParamInfo<LaneKind>& lane) {
  std::string name = std::get<0>(lane.param) + "_" + std::get<1>(lane.param);
  std::erase(name, '-');
  return name;
}

class OnEachLane : public testing::TestWithParam<LaneKind> {
 protected:
  void SetUp() override {
    if (lane::ops_named(instructions()) == nullptr) GTEST_SKIP() << "not on this processor";
  }
  static const std::string& instructions() { return std::get<1>(GetParam()); }
  static EngineOptions engine_options() {
    EngineOptions options = codec::ReplyHarness::small_engine();
    options.index_kind = std::get<0>(GetParam());
    return options;
  }
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine_); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <std::size_t N>
  const char* of(const char* const (&all)[N]) {
    return all[below(N)];
  }

 private:
  std::mt19937 engine_;
};

// What input is made of.
struct Mix {
  std::size_t one_odd_in = 15;  // commands that are not for the lane
  std::size_t sets_percent = 2;
  std::size_t keys = 40;  // of all lengths
};

inline std::string key_of(Random& random, const Mix& mix = {}) {
  const std::size_t n = random.below(mix.keys);
  std::string key = "k" + std::to_string(n);
  if (n % 3 == 1) key.resize(1 + n % 16, 'x');
  if (n % 3 == 2) key.resize(17 + 7 * n % 234, static_cast<char>('a' + n % 26));
  if (random.one_in(60)) key.resize(245 + random.below(10), 'l');
  return key;
}

inline std::string number(Random& random) { return std::to_string(random.one_in(2) ? 0 : random.below(70000)); }

// Mostly of the lengths that other values have, too, so that a set can be done in place; and each a different one.
inline std::string value_of(Random& random) {
  const std::size_t sizes[] = {0, 1, 8, 8, 8, 8, 16, 64, 200, 1000, 1024, 1025, 5000, 17000};
  std::string value(random.one_in(3) ? random.below(100) : sizes[random.below(random.one_in(9) ? 14 : 9)], 'v');
  for (char& c : value) c = static_cast<char>('a' + random.below(26));
  return value;
}

inline std::string set_line(std::string_view key, std::string_view value, std::string_view flags_and_expiry = "0 0") {
  return std::string("set ").append(key).append(" ").append(flags_and_expiry) + " " + std::to_string(value.size()) +
         "\r\n" + std::string(value) + "\r\n";
}

inline std::string set_of(Random& random, const Mix& mix = {}) {
  constexpr const char* exptimes[] = {"0", "0", "0", "0", "0", "5", "100", "-1", "2592001", "0000"};
  constexpr const char* meta_flags[] = {"", "", "", "", " T0", " T4", " T-1", " F0", " F7", " q", " S8", " MS", " T"};
  const std::string value = value_of(random);
  if (random.one_in(4)) {
    return "ms " + key_of(random, mix) + " " + std::to_string(value.size()) + random.of(meta_flags) + "\r\n" + value +
           "\r\n";
  }
  return "set " + key_of(random, mix) + " " + (random.one_in(3) ? number(random) : "0") + " " + random.of(exptimes) +
         " " + std::to_string(value.size()) + (random.one_in(5) ? " noreply" : "") + "\r\n" + value + "\r\n";
}

// A set that something is wrong with, or odd.
inline std::string odd_set_of(Random& random, const Mix& mix = {}) {
  const std::string key = key_of(random, mix), value = value_of(random), length = std::to_string(value.size());
  switch (random.below(9)) {
    case 0:
      return "set " + key + " 0 0 " + length + "\r\n" + value + "x\r\n";
    case 1:
      return "set " + key + " 0 0 " + std::to_string(value.size() + 1) + "\r\n" + value + "\r\n";
    case 2:
      return "set " + key + "  0 0 " + length + "\r\n" + value + "\r\n";
    case 3:
      return "set " + key + " 0 0 " + length + " \r\n" + value + "\r\n";
    case 4:
      return "set " + key + " 4294967296 0 +" + length + "\r\n" + value + "\r\n";
    case 5:
      return "set " + key + " 0 0 " + length + "\n" + value + "\r\n";
    case 6:
      return "set " + key + " 0 0 " + length + " norepl\r\n" + value + "\r\n";
    case 7:
      return "ms " + key + " " + length + " T1x\r\n" + value + "\r\n";
    default:
      return "set " + key + " 0 0 -1\r\n" + (random.one_in(2) ? "cas " : "add ") + key + " 0 0 1 1\r\nx\r\n";
  }
}

inline std::string get_of(Random& random, const Mix& mix = {}) {
  switch (random.below(8)) {
    case 0:
    case 1:
    case 2:
      return "get " + key_of(random, mix) + "\r\n";
    case 3: {
      std::string line = random.one_in(2) ? "get" : "gets";
      for (std::size_t keys = 1 + random.below(random.one_in(5) ? 60 : 5); keys != 0; --keys)
        line += " " + key_of(random, mix);
      return line + "\r\n";
    }
    case 4:
      return "gets " + key_of(random, mix) + "\r\n";
    case 5:
      return "mg " + key_of(random, mix) + " v K\r\n";
    default:
      return "mg " + key_of(random, mix) + " v\r\n";
  }
}

// Commands without a plain form: rows.
inline std::string row_of(Random& random, const Mix& mix = {}) {
  constexpr const char* updates[] = {"add ", "replace ", "append ", "prepend "};
  constexpr const char* mg_flags[] = {" k t f v", " v c O7 k", " t", " N9 v t", " R30 v", " T60 v", " E9 v", " q k v"};
  constexpr const char* ms_flags[] = {" MA", " MP", " ME", " MR", " c", " I C1", " MA N9", " T9 G", " q F3"};
  constexpr const char* ma_flags[] = {"", " MD", " D7 t v", " N9 J5 v", " q", " C3", " T9"};
  const std::string key = key_of(random, mix), value = random.one_in(3) ? number(random) : value_of(random);
  const std::string length = std::to_string(value.size()), data = "\r\n" + value + "\r\n";
  const std::string quiet = random.one_in(4) ? " noreply\r\n" : "\r\n";
  switch (random.below(12)) {
    case 0:
    case 1:
      return random.of(updates) + key + " 0 " + (random.one_in(3) ? "9 " : "0 ") + length +
             (random.one_in(4) ? " noreply" : "") + data;
    case 2: {
      std::string line = random.one_in(2) ? "gat 9" : "gats 0";
      for (std::size_t keys = 1 + random.below(random.one_in(4) ? 40 : 5); keys != 0; --keys)
        line += " " + key_of(random, mix);
      return line + "\r\n";
    }
    case 3:
      return (random.one_in(2) ? "incr " : "decr ") + key + " " + number(random) + quiet;
    case 4:
      return "cas " + key + " 0 0 " + length + " " + std::to_string(random.below(400)) + data;
    case 5:
      return (random.one_in(2) ? "delete " + key : "touch " + key + " " + (random.one_in(2) ? "0" : "9")) + quiet;
    case 6:
      return "ms " + key + " " + length + random.of(ms_flags) + data;
    case 7:
      return "md " + key + (random.one_in(3) ? " I T9" : random.one_in(2) ? " q" : " k O1") + "\r\n";
    case 8:
      return "ma " + key + random.of(ma_flags) + "\r\n";
    case 9:
      return random.one_in(3) ? "mg " + std::string(random.one_in(2) ? "azE=" : "Zm9v") + " b k v\r\n" : "version\r\n";
    default:
      return "mg " + key + random.of(mg_flags) + "\r\n";
  }
}

inline std::string other_of(Random& random, const Mix& mix = {}) {
  if (random.one_in(2)) return row_of(random, mix);
  constexpr const char* flags[] = {" ", " v K q", " K v", " s v t", " v N30", " k", " q v", " v h l t f c", "", " b v"};
  switch (random.below(10)) {
    case 9:
      return odd_set_of(random, mix);
    case 0:
      return "mg " + key_of(random, mix) + random.of(flags) + "\r\n";
    case 1:
      return "md " + key_of(random, mix) + (random.one_in(2) ? " I T9\r\n" : "\r\n");
    case 2:
      return "touch " + key_of(random, mix) + " 3\r\n";
    case 3:
      return random.one_in(10) ? "flush_all\r\n" : "mn\r\n";
    case 4:
      return "delete " + key_of(random, mix) + "\r\n";
    case 5:
      return "ms " + std::string(random.one_in(2) ? "azE=" : "Zm9v") + " 2 b\r\nhi\r\n";
    case 6:
      return random.one_in(2) ? "get  " + key_of(random, mix) + "\r\n" : "get " + key_of(random, mix) + " \r\n";
    case 7:
      return "get " + key_of(random, mix) + (random.one_in(2) ? "\n" : "\r\r\n");
    default:
      return random.one_in(2) ? "incr " + key_of(random, mix) + " 1\r\n" : "nonsense\r\n";
  }
}

inline std::string odd_packet_of(Random& random, std::string_view key) {
  namespace binary = codec::binary;
  const std::string text = random.one_in(2) ? number(random) : value_of(random);
  switch (random.below(9)) {
    case 0:
      return binary::packet(binary::opcode::increment, {.key = key, .extras = binary::arithmetic_extras(3, 9, 0)});
    case 1:
      return binary::packet(binary::opcode::append, {.key = key, .value = text});
    case 2:
      return binary::packet(binary::opcode::remove, {.key = key});
    case 3:
      return binary::packet(binary::opcode::touch, {.key = key, .extras = std::string(4, '\0')});
    case 4:
      return binary::packet(binary::opcode::gat, {.key = key, .extras = std::string(4, '\0')});
    case 5:
      return binary::packet(0x6f, {.key = key, .value = text});
    case 6:
      return binary::packet(binary::opcode::version);
    default:
      return binary::packet(binary::opcode::noop);
  }
}

inline std::string packet_of(Random& random, const Mix& mix = {}) {
  namespace binary = codec::binary;
  constexpr std::uint8_t gets[] = {binary::opcode::get, binary::opcode::getq, binary::opcode::getk,
                                   binary::opcode::getkq};
  const std::string key = key_of(random, mix).substr(0, 250);
  if (random.below(100) < std::max<std::size_t>(mix.sets_percent, 8)) {
    const std::string value = value_of(random), extras = binary::store_extras(random.one_in(3) ? 7 : 0);
    constexpr std::uint8_t sets[] = {binary::opcode::set,  binary::opcode::setq, binary::opcode::set,
                                     binary::opcode::setq, binary::opcode::add,  binary::opcode::replaceq};
    return binary::packet(sets[random.below(6)], {.key = key,
                                                  .extras = extras,
                                                  .value = value,
                                                  .cas = random.one_in(9) ? random.below(9) : 0,
                                                  .opaque = static_cast<std::uint32_t>(random.below(99))});
  }
  if (random.one_in(mix.one_odd_in)) return odd_packet_of(random, key);
  return binary::packet(gets[random.below(4)], {.key = key, .opaque = static_cast<std::uint32_t>(random.below(99))});
}

inline std::string some_input(Random& random, bool binary, const Mix& mix) {
  std::string all;
  for (std::size_t n = random.below(120); n != 0; --n) {
    if (binary) {
      all += packet_of(random, mix);
    } else if (random.one_in(mix.one_odd_in)) {
      all += other_of(random, mix);
    } else {
      all += random.below(100) < mix.sets_percent ? set_of(random, mix) : get_of(random, mix);
    }
  }
  return all;
}

// Rounds of generated input for two stores: some sets whole, then what input() makes in parts of part_bytes(its size)
// bytes, `mutations` of its bytes changed, while time passes.
struct Rounds {
  int count;
  bool has_sets;
  std::size_t mutations;
};
template <class Harness, class Input, class PartBytes>
void exchange_in_parts(Harness& harness, Random& random, const Mix& mix, const Rounds& rounds, Input make_input,
                       PartBytes part_bytes) {
  std::uint32_t now_s = codec::ReplyHarness::start_s;
  for (int round = 0; round < rounds.count && !harness.closed(); ++round) {
    std::string sets, input = make_input();
    for (std::size_t i = rounds.has_sets ? random.below(10) : 0; i != 0; --i) sets += set_of(random, mix);
    const auto stored = harness.exchange(sets);
    ASSERT_EQ(stored.with, stored.without) << sets;
    for (std::size_t i = 0; i < rounds.mutations && !input.empty(); ++i)
      input[random.below(input.size())] = "\r\n \x01m0g9\xff"[random.below(10)];
    for (std::size_t at = 0; at < input.size();) {
      const std::size_t part = part_bytes(input.size());
      const auto [with, without] = harness.exchange(std::string_view(input).substr(at, part));
      ASSERT_EQ(with, without) << input;
      at += part;
    }
    if (random.one_in(3)) harness.set_time(now_s += random.one_in(4) ? 100u : 2u);
  }
}

inline void expect_same_counters(const StoreCounters& a, const StoreCounters& b) {
  EXPECT_EQ(a.cmd_get.get(), b.cmd_get.get());
  EXPECT_EQ(a.get_hits.get(), b.get_hits.get());
  EXPECT_EQ(a.get_misses.get(), b.get_misses.get());
  EXPECT_EQ(a.get_expired.get(), b.get_expired.get());
  EXPECT_EQ(a.get_flushed.get(), b.get_flushed.get());
  EXPECT_EQ(a.cmd_set.get(), b.cmd_set.get());
  EXPECT_EQ(a.cmd_touch.get(), b.cmd_touch.get());
  EXPECT_EQ(a.total_items.get(), b.total_items.get());
  EXPECT_EQ(a.store_too_large.get(), b.store_too_large.get());
  EXPECT_EQ(a.store_no_memory.get(), b.store_no_memory.get());
}
template <class Harness>
void expect_same_counters(Harness& harness) {
  expect_same_counters(harness.counters_with(), harness.counters_without());
}

// Generated input in random parts; `mutations` of its bytes are changed.
inline void compare(LaneHarness& harness, Random& random, bool binary, const Mix& mix, std::size_t mutations) {
  exchange_in_parts(
      harness, random, mix, {.count = 30, .has_sets = !binary, .mutations = mutations},
      [&] { return some_input(random, binary, mix); },
      [&](std::size_t input_bytes) { return random.one_in(3) ? 1 + random.below(20) : 1 + random.below(input_bytes); });
  expect_same_counters(harness);
}

// Input in random parts to a FramesHarness; `mutations` of its bytes are changed.
template <class Harness, class Input>
void compare_frames(Harness& harness, Random& random, const Mix& mix, std::size_t mutations, Input input) {
  exchange_in_parts(harness, random, mix, {.count = 12, .has_sets = true, .mutations = mutations}, input,
                    [&](std::size_t input_bytes) {
                      harness.skip = random.below(frame_unit_bytes);
                      return 1 + random.below(random.one_in(5) ? 40 : random.one_in(5) ? input_bytes : 1500);
                    });
  expect_same_counters(harness);
}

}  // namespace tandem::lane_test
