#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include "bench/workload/keys.hpp"
#include "bench/workload/spec.hpp"
#include "bench/workload/stream.hpp"
#include "bench/workload/value_bytes.hpp"

namespace tandem::workload {
namespace {

template <class Function>
std::string refusal_of(Function function) {
  try {
    function();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

std::string key_text(const KeySpace& keys, std::uint64_t key) {
  char bytes[key_bytes_max];
  return {bytes, keys.write_key(key, bytes)};
}

TEST(KeySpace, AKeyEndsInItsNumber) {
  Spec spec;
  const auto text = [&](std::uint32_t bytes, std::uint64_t key) {
    spec.keys = 1;
    spec.key_bytes = Sizes::fixed(bytes);
    return key_text(KeySpace(spec), key);
  };
  EXPECT_EQ(text(8, 0x12ab34cd), "12ab34cd");
  EXPECT_EQ(text(9, 0x512ab34cd), "512ab34cd");
  EXPECT_EQ(text(15, 0xfedcba987654321), "fedcba987654321");
  EXPECT_EQ(text(16, 0xfedcba9876543210), "fedcba9876543210");
  EXPECT_EQ(text(20, 255), "kkkk00000000000000ff");
  EXPECT_EQ(text(250, 9).size(), 250U);
}

TEST(KeySpace, KeysAreUniqueAndWithoutSpaces) {
  for (const char* sizes : {"8", "11", "16", "40", "8-24", "etc", "usr", "app", "sys"}) {
    Spec spec;
    spec.key_bytes = parse_key_sizes(sizes);
    const KeySpace keys(spec);
    std::unordered_set<std::string> seen;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      const std::uint64_t key = i < 10'000 ? i : 0xffffffff - i;  // both ends of the range of 8 bytes
      const std::string text = key_text(keys, key);
      ASSERT_EQ(text.size(), keys.key_bytes(key));
      ASSERT_TRUE(seen.insert(text).second) << sizes << ' ' << text;
      ASSERT_TRUE(std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; })) << text;
      ASSERT_TRUE(keys.is_key(key, text));
      ASSERT_FALSE(keys.is_key(key + 1, text));
    }
  }
}

TEST(KeySpace, OnlyTheRightValueIsRight) {
  for (const char* sizes : {"1", "7", "8", "64", "1000", "0-100", "etc", "usr"}) {
    Spec spec;
    spec.value_bytes = parse_value_sizes(sizes);
    const KeySpace keys(spec);
    for (std::uint64_t key = 0; key < 500; ++key) {
      std::string value(keys.value_bytes(key), '\0');
      ASSERT_EQ(keys.write_value(key, value.data()), value.data() + value.size());
      ASSERT_TRUE(keys.is_value(key, value));
      ASSERT_FALSE(keys.is_value(key, value + 'x'));
      if (value.empty()) continue;
      ASSERT_FALSE(keys.is_value(key, std::string_view(value).substr(1)));
      for (std::size_t at : {std::size_t{0}, value.size() / 2, value.size() - 1}) {
        std::string wrong = value;
        wrong[at] = static_cast<char>(wrong[at] ^ 1);
        ASSERT_FALSE(keys.is_value(key, wrong)) << sizes << ' ' << key << ' ' << at;
      }
      if (value.size() < 8) continue;
      ASSERT_FALSE(keys.is_value(key + 1, value));
      std::string moved = value.substr(value.size() / 2) + value.substr(0, value.size() / 2);
      ASSERT_FALSE(keys.is_value(key, moved));
    }
  }
}

TEST(KeySpace, AKeysBytesTellItsNumber) {
  for (const char* sizes : {"8", "11", "16", "40", "8-24", "etc"}) {
    Spec spec;
    spec.key_bytes = parse_key_sizes(sizes);
    const KeySpace keys(spec);
    EXPECT_EQ(keys.is_in_order(), spec.key_bytes.low == spec.key_bytes.high);
    std::string last;
    for (std::uint64_t key = 0; key < 0x80000000U; key = key * 9 / 8 + 1) {
      const std::string text = key_text(keys, key);
      ASSERT_EQ(keys.number_of(text), key) << sizes;
      EXPECT_TRUE(!keys.is_in_order() || last < text) << last;
      last = text;
      for (const std::size_t at : {std::size_t{0}, text.size() / 2, text.size() - 1}) {
        for (const char other : {'A', 'g', ' ', '-', '\0'}) {
          std::string wrong = text;
          wrong[at] = other;
          EXPECT_EQ(keys.number_of(wrong), std::nullopt) << wrong;
        }
      }
      EXPECT_EQ(keys.number_of(text + 'x'), std::nullopt);
    }
    for (const char* other : {"", "0", "0000000", "kkkkkkkk", "user0001", "0x000001", "+0000001"})
      EXPECT_EQ(keys.number_of(other), std::nullopt) << other;
    EXPECT_EQ(keys.number_of(std::string(251, '0')), std::nullopt);
  }
}

TEST(KeySpace, DoesNotDependOnTheSeed) {
  Spec one, two;
  one.key_bytes = two.key_bytes = parse_key_sizes("etc");
  one.value_bytes = two.value_bytes = parse_value_sizes("etc");
  two.seed = 99;
  for (std::uint64_t key = 0; key < 1000; ++key) {
    EXPECT_EQ(key_text(KeySpace(one), key), key_text(KeySpace(two), key));
    EXPECT_EQ(KeySpace(one).value_bytes(key), KeySpace(two).value_bytes(key));
  }
}

// A shorter value is a prefix of the same bytes.
TEST(ValueBytes, AreOneSequenceForEachWord) {
  std::string all(1003, '\0');
  write_value_bytes(42, all.size(), all.data());
  for (std::size_t n = 0; n <= all.size(); n += 1 + n / 7) {
    std::string some(n, '\0');
    EXPECT_EQ(write_value_bytes(42, n, some.data()), some.data() + n);
    EXPECT_EQ(some, all.substr(0, n));
    EXPECT_TRUE(are_value_bytes(42, some));
    EXPECT_EQ(are_value_bytes(43, some), n == 0) << n;
  }
}

// Every tenth of the key space gets its share of the low ranks: popular keys are not neighbours.
TEST(Scatter, IsABijectionThatSpreads) {
  for (const std::uint64_t n : {1U, 2U, 3U, 7U, 64U, 1000U, 65'536U, 100'003U}) {
    for (const std::uint64_t seed : {1U, 2U}) {
      std::vector<bool> taken(n);
      for (std::uint64_t rank = 0; rank < n; ++rank) {
        const std::uint64_t key = scatter(rank, n, seed);
        ASSERT_LT(key, n);
        ASSERT_FALSE(taken[key]) << n << ' ' << rank;
        taken[key] = true;
      }
    }
  }
  constexpr std::uint64_t n = 1'000'000;
  std::array<int, 10> tenths{};
  int neighbours = 0, same = 0;
  for (std::uint64_t rank = 0; rank < 10'000; ++rank) {
    const std::uint64_t key = scatter(rank, n, 1), next = scatter(rank + 1, n, 1);
    ++tenths[key * 10 / n];
    neighbours += (key > next ? key - next : next - key) < 16;
    same += key == scatter(rank, n, 2);
  }
  for (const int count : tenths) EXPECT_NEAR(count, 1000, 150);
  EXPECT_LT(neighbours, 10);
  EXPECT_LT(same, 10);
}

bool are_same(const Op& a, const Op& b) { return a.kind == b.kind && a.key == b.key && a.scan_keys == b.scan_keys; }

TEST(Stream, IsTheSameForTheSameSeedAndStreamOnly) {
  for (const Preset& p : all_presets()) {
    Spec spec = preset(p.name);
    spec.keys = 10'000;
    Stream one(spec, 1, 4), again(spec, 1, 4), other(spec, 2, 4);
    Spec reseeded = spec;
    reseeded.seed = 2;
    Stream seeded(reseeded, 1, 4);
    int same_other = 0, same_seeded = 0;
    for (int i = 0; i < 1000; ++i) {
      const Op op = one.next();
      ASSERT_TRUE(are_same(op, again.next())) << p.name;
      same_other += op.key == other.next().key;
      same_seeded += op.key == seeded.next().key;
    }
    EXPECT_LT(same_other, 200) << p.name;
    EXPECT_LT(same_seeded, 200) << p.name;
  }
}

TEST(Stream, SharesOfOperationsAreThoseOfTheMix) {
  Spec spec;
  spec.keys = 1000;
  spec.mix = {};
  spec.mix[OpKind::get] = 0.5;
  spec.mix[OpKind::set] = 0.2;
  spec.mix[OpKind::read_modify_write] = 0.15;
  spec.mix[OpKind::remove] = 0.1;
  spec.mix[OpKind::insert] = 0.05;
  Stream stream(spec, 0, 1);
  constexpr int n = 200'000;
  std::array<int, op_kind_count> counts{};
  for (int i = 0; i < n; ++i) ++counts[static_cast<std::size_t>(stream.next().kind)];
  for (std::size_t k = 0; k < op_kind_count; ++k) {
    const double share = spec.mix.share[k], deviation = std::sqrt(share * (1 - share) * n);
    EXPECT_NEAR(counts[k], share * n, 4 * deviation) << k;  // an operation without a share never occurs
  }
}

TEST(Stream, AShareOfOneIsAllThereIs) {
  for (const double get_share : {0.0, 1.0}) {
    Spec spec;
    spec.mix = Mix::get_set(get_share);
    Stream stream(spec, 0, 1);
    for (int i = 0; i < 10'000; ++i) ASSERT_EQ(stream.next().kind == OpKind::get, get_share == 1);
  }
}

TEST(Stream, SequentialStreamsTogetherTakeEachKeyOnceALap) {
  for (const std::uint64_t n : {1U, 3U, 100U, 101U}) {
    Spec spec;
    spec.keys = n;
    spec.popularity = Popularity::sequential;
    constexpr std::uint32_t streams = 4;
    std::map<std::uint64_t, int> seen;
    for (std::uint32_t s = 0; s < streams && s < n; ++s) {
      Stream stream(spec, s, streams);
      const std::uint64_t own = (n - s + streams - 1) / streams;
      for (std::uint64_t i = 0; i < 2 * own; ++i) {
        const Op op = stream.next();
        EXPECT_EQ(op.key, s + i % own * streams);
        ++seen[op.key];
      }
    }
    EXPECT_EQ(seen.size(), n);
    for (const auto& [key, count] : seen) EXPECT_EQ(count, 2) << key;
  }
}

TEST(Stream, InsertsAreNewAndEachStreamsOwn) {
  Spec spec = preset("ycsb-d");
  spec.keys = 1000;
  std::set<std::uint64_t> inserted;
  for (std::uint32_t s = 0; s < 3; ++s) {
    Stream stream(spec, s, 3);
    std::set<std::uint64_t> own;
    std::uint64_t latest_reads = 0, reads = 0;
    for (int i = 0; i < 50'000; ++i) {
      const Op op = stream.next();
      if (op.kind == OpKind::insert) {
        EXPECT_GE(op.key, spec.keys);
        EXPECT_TRUE(inserted.insert(op.key).second);
        own.insert(op.key);
        continue;
      }
      // Every key read is present: from the start, or inserted by this stream.
      ASSERT_TRUE(op.key < spec.keys || own.contains(op.key)) << op.key;
      ++reads;
      latest_reads += !own.empty() && op.key == *own.rbegin();
    }
    // The latest has rank 0: 1 / H(1000, 0.99) = 13 % of the reads.
    EXPECT_NEAR(static_cast<double>(latest_reads) / static_cast<double>(reads), 0.13, 0.01);
  }
}

TEST(Stream, AShiftMovesPopularityToOtherKeys) {
  Spec spec;
  spec.keys = 10'000;
  spec.theta = 1.2;
  spec.shift_ops = 20'000;
  spec.shift_keys = 10;
  Stream stream(spec, 0, 1);
  std::vector<std::uint64_t> favourites;
  for (int phase = 0; phase < 3; ++phase) {
    std::map<std::uint64_t, int> counts;
    for (std::uint64_t i = 0; i < spec.shift_ops; ++i) ++counts[stream.next().key];
    favourites.push_back(std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->first);
  }
  for (std::uint64_t phase = 0; phase < 3; ++phase)
    EXPECT_EQ(favourites[phase], scatter(phase * spec.shift_keys, spec.keys, spec.seed)) << phase;
}

TEST(Stream, ScansHaveAllLengthsUpToTheMost) {
  Stream stream(preset("ycsb-e"), 0, 1);
  std::map<std::uint32_t, int> lengths;
  for (int i = 0; i < 100'000; ++i) {
    const Op op = stream.next();
    if (op.kind == OpKind::scan) ++lengths[op.scan_keys];
  }
  EXPECT_EQ(lengths.begin()->first, 1U);
  EXPECT_EQ(lengths.rbegin()->first, 100U);
  EXPECT_EQ(lengths.size(), 100U);
  for (const auto& [length, count] : lengths) EXPECT_NEAR(count, 950, 200) << length;
}

TEST(Stream, ScansHaveTheLengthsThatWereAskedFor) {
  for (const auto& [least, most] : {std::pair{7U, 7U}, {3U, 5U}, {1U, 1U}}) {
    Spec spec = preset("ycsb-e");
    spec.scan_keys_min = least;
    spec.scan_keys_max = most;
    Stream stream(spec, 0, 1);
    std::set<std::uint32_t> lengths;
    for (int i = 0; i < 1000; ++i) {
      const Op op = stream.next();
      if (op.kind == OpKind::scan) lengths.insert(op.scan_keys);
    }
    EXPECT_EQ(*lengths.begin(), least);
    EXPECT_EQ(*lengths.rbegin(), most);
    EXPECT_EQ(lengths.size(), most - least + 1);
  }
}

TEST(Stream, ItsIndexIsOneOfTheCount) {
  EXPECT_NE(refusal_of([] { Stream(Spec{}, 2, 2); }), "");
  EXPECT_NE(refusal_of([] { Stream(Spec{}, 0, 0); }), "");
}

TEST(Preset, EachIsWhatItsPaperSays) {
  struct Expected {
    const char *name, *key, *value;
    double get, set, other;
    Popularity popularity;
  };
  using enum Popularity;
  const Expected table[] = {
      {"ycsb-a", "23", "1000", 0.5, 0.5, 0, zipf},
      {"ycsb-b", "23", "1000", 0.95, 0.05, 0, zipf},
      {"ycsb-c", "23", "1000", 1, 0, 0, zipf},
      {"ycsb-d", "23", "1000", 0.95, 0, 0.05, latest},
      {"ycsb-e", "23", "1000", 0, 0, 1, zipf},
      {"ycsb-f", "23", "1000", 0.5, 0, 0.5, zipf},
      {"etc", "etc", "etc", 30.0 / 31, 1.0 / 31, 0, zipf},
      {"usr", "usr", "usr", 0.998, 0.002, 0, zipf},
      {"app", "app", "app", 0.95, 0.05, 0, zipf},
      {"var", "var", "var", 0.18, 0.82, 0, zipf},
      {"sys", "sys", "sys", 0.95, 0.05, 0, zipf},
      {"K8-G50-U", "8", "8", 0.5, 0.5, 0, uniform},
      {"k16-g95-s", "16", "64", 0.95, 0.05, 0, zipf},
      {"K32-G100-U", "32", "256", 1, 0, 0, uniform},
      {"K128-G95-S", "128", "1024", 0.95, 0.05, 0, zipf},
      {"K32-V512-G95-S", "32", "512", 0.95, 0.05, 0, zipf},
      {"K16..128-V2-G100-U", "16-128", "2", 1, 0, 0, uniform},
      {"K64-V2-G100-U", "64", "2", 1, 0, 0, uniform},
      {"K8-G0-U", "8", "8", 0, 1, 0, uniform},
  };
  for (const Expected& e : table) {
    const Spec spec = preset(e.name);
    EXPECT_EQ(to_string(spec.key_bytes), e.key) << e.name;
    EXPECT_EQ(to_string(spec.value_bytes), e.value) << e.name;
    EXPECT_DOUBLE_EQ(spec.mix[OpKind::get], e.get) << e.name;
    EXPECT_NEAR(spec.mix[OpKind::set], e.set, 1e-12) << e.name;
    EXPECT_NEAR(1 - spec.mix[OpKind::get] - spec.mix[OpKind::set], e.other, 1e-12) << e.name;
    EXPECT_EQ(spec.popularity, e.popularity) << e.name;
    EXPECT_EQ(spec.theta, 0.99) << e.name;
    validate(spec);
  }
  EXPECT_DOUBLE_EQ(preset("ycsb-d").mix[OpKind::insert], 0.05);
  EXPECT_DOUBLE_EQ(preset("ycsb-e").mix[OpKind::scan], 0.95);
  EXPECT_EQ(preset("ycsb-e").scan_keys_max, 100U);
  EXPECT_DOUBLE_EQ(preset("ycsb-f").mix[OpKind::read_modify_write], 0.5);
}

TEST(Preset, AllOfTheListExistUnderTheirNames) {
  std::set<std::string> names;
  for (const Preset& p : all_presets()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_EQ(preset(p.name).name, p.name);
    EXPECT_NE(p.summary, "");
  }
  EXPECT_EQ(names.size(), 6U + 5 + 4 * 3 * 2);
  EXPECT_EQ(preset("YCSB-A").name, "ycsb-a");
  EXPECT_EQ(preset("k8-g50-u").name, "K8-G50-U");
}

TEST(Preset, OtherNamesAreRefused) {
  for (const char* name : {"",
                           "ycsb",
                           "ycsb-g",
                           "etc ",
                           "K8",
                           "K8-G50",
                           "K16..-V2-G50-U",
                           "K16..16-V2-G50-U",
                           "K32..16-V2-G50-U",
                           "K7..16-V2-G50-U",
                           "K16..251-V2-G50-U",
                           "K16..32-G50-U",
                           "K16...32-V2-G50-U",
                           "K9-G50-U",
                           "K7-V1-G50-U",
                           "K251-V1-G50-U",
                           "K8-G101-U",
                           "K8-G-U",
                           "K8-G50-X",
                           "K8-G5x-U",
                           "K8-50-U",
                           "K8-G50-U-",
                           "K8-V-G50-U",
                           "K8-V99999999999-G50-U",
                           "-K8-G50-U",
                           "K8-G50-U-U-U-U",
                           "K8-G99999999999-U"}) {
    EXPECT_NE(refusal_of([&] { preset(name); }).find("unknown workload"), std::string::npos) << name;
  }
}

TEST(Validate, SaysWhatIsWrong) {
  const auto refusal = [](auto change) {
    Spec spec;
    change(spec);
    return refusal_of([&] { validate(spec); });
  };
  EXPECT_EQ(refusal([](Spec&) {}), "");
  EXPECT_NE(refusal([](Spec& s) { s.keys = 0; }).find("one key"), std::string::npos);
  EXPECT_NE(refusal([](Spec& s) { s.key_bytes = Sizes::fixed(7); }).find("key size"), std::string::npos);
  EXPECT_NE(refusal([](Spec& s) { s.key_bytes = Sizes::fixed(251); }).find("key size"), std::string::npos);
  EXPECT_NE(refusal([](Spec& s) { s.value_bytes = Sizes::fixed(value_bytes_limit + 1); }).find("value size"),
            std::string::npos);
  EXPECT_NE(refusal([](Spec& s) { s.value_bytes = {SizeModel::uniform, 9, 8}; }).find("empty range"),
            std::string::npos);
  EXPECT_NE(refusal([](Spec& s) { s.mix[OpKind::get] = 0.5; }).find("add up"), std::string::npos);
  EXPECT_NE(refusal([](Spec& s) { s.mix = Mix::get_set(1.5); }).find("0 to 1"), std::string::npos);
  EXPECT_NE(refusal([](Spec& s) { s.mix = Mix::get_set(std::nan("")); }).find("0 to 1"), std::string::npos);
  EXPECT_NE(refusal([](Spec& s) { s.theta = -0.1; }).find("theta"), std::string::npos);
  EXPECT_NE(refusal([](Spec& s) { s.theta = std::nan(""); }).find("theta"), std::string::npos);
  EXPECT_NE(refusal([](Spec& s) { s.shift_ops = 5; }).find("shift"), std::string::npos);
  EXPECT_NE(refusal([](Spec& s) { s.shift_keys = 5; }).find("shift"), std::string::npos);
  EXPECT_NE(refusal([](Spec& s) {
              s.shift_ops = s.shift_keys = 5;
              s.popularity = Popularity::uniform;
            }).find("only zipf"),
            std::string::npos);
  EXPECT_NE(refusal([](Spec& s) {
              s.mix = {};
              s.mix[OpKind::scan] = 1;
              s.scan_keys_min = 0;
            }).find("scan"),
            std::string::npos);
  EXPECT_NE(refusal([](Spec& s) { s.scan_keys_min = 101; }).find("empty range"), std::string::npos);
}

// 8 bytes can represent 2^32 keys; with inserts half of them are reserved for those.
TEST(Validate, ShortKeysLimitTheirNumber) {
  Spec spec;
  spec.key_bytes = Sizes::fixed(8);
  spec.keys = std::uint64_t{1} << 32;
  validate(spec);
  ++spec.keys;
  EXPECT_NE(refusal_of([&] { validate(spec); }).find("too short"), std::string::npos);
  spec.key_bytes = Sizes::fixed(9);
  validate(spec);
  spec = preset("ycsb-d");
  spec.key_bytes = Sizes::fixed(8);
  spec.keys = std::uint64_t{1} << 31;
  validate(spec);
  ++spec.keys;
  EXPECT_NE(refusal_of([&] { validate(spec); }).find("too short"), std::string::npos);
}

}  // namespace
}  // namespace tandem::workload
