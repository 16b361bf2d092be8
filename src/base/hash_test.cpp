#include "base/hash.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

namespace tandem {
namespace {

TEST(Hash, DependsOnAllBytesTheLengthAndTheSeed) {
  const Fingerprint f = fingerprint_of("key", 1);
  const std::string elsewhere = "key";
  EXPECT_EQ(f, fingerprint_of(elsewhere, 1));
  EXPECT_NE(f, fingerprint_of("kez", 1));
  EXPECT_NE(f, fingerprint_of("key ", 1));
  EXPECT_NE(f, fingerprint_of("key", 2));
}

TEST(Hash, KeysMayHoldAnyByte) {
  EXPECT_NE(fingerprint_of(std::string_view("a\0b", 3), 1), fingerprint_of(std::string_view("a\0c", 3), 1));
}

TEST(Hash, SignatureIsNeverZero) {
  static_assert(split_hash(0x00000000'12345678) == Fingerprint{1, 0x12345678});
  static_assert(split_hash(0x00000002'12345678) == Fingerprint{2, 0x12345678});
}

TEST(Hash, HalvesDiffer) {
  std::unordered_set<std::uint32_t> signatures;
  std::unordered_set<std::uint32_t> hashes;
  constexpr int keys = 10'000;
  for (int i = 0; i < keys; ++i) {
    const Fingerprint f = fingerprint_of("key-" + std::to_string(i), 42);
    EXPECT_NE(f.signature, 0u);
    signatures.insert(f.signature);
    hashes.insert(f.hash);
  }
  // About keys^2 / 2^33 = 0.01 collisions are expected in each half.
  EXPECT_GE(signatures.size(), keys - 2u);
  EXPECT_GE(hashes.size(), keys - 2u);
}

// FIPS 197, appendix B: the state after the first round, of the published input under the published key.
TEST(ShortHash, ARoundIsThatOfAes) {
  const auto words = [](const std::array<std::uint8_t, 16>& bytes) {
    ShortKey k;
    std::memcpy(&k, bytes.data(), sizeof k);
    return k;
  };
  const ShortKey start =
      words({0x19, 0x3d, 0xe3, 0xbe, 0xa0, 0xf4, 0xe2, 0x2b, 0x9a, 0xc6, 0x8d, 0x2a, 0xe9, 0xf8, 0x48, 0x08});
  const ShortKey key =
      words({0xa0, 0xfa, 0xfe, 0x17, 0x88, 0x54, 0x2c, 0xb1, 0x23, 0xa3, 0x39, 0x39, 0x2a, 0x6c, 0x76, 0x05});
  const ShortKey end =
      words({0xa4, 0x9c, 0x7f, 0xf2, 0x68, 0x9f, 0x35, 0x2b, 0x6b, 0x5b, 0xea, 0x43, 0x02, 0x6a, 0x50, 0x49});
  const ShortKey got = short_hash::round(short_hash::columns.data(), start, key);
  EXPECT_EQ(got.low, end.low);
  EXPECT_EQ(got.high, end.high);
}

TEST(ShortHash, InstructionsAndPortableCodeAgree) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const ShortKey key{random(), random()};
    const std::uint64_t seed = random();
    const std::size_t bytes = random() % (short_key_bytes_max + 1);
    ASSERT_EQ(short_hash_of(key, bytes, seed), short_hash_portable(key, bytes, seed));
  }
}

TEST(ShortHash, LoadsTheKeyAndNothingBehindIt) {
  for (std::size_t bytes = 0; bytes <= short_key_bytes_max; ++bytes) {
    const std::unique_ptr<char[]> key(new char[bytes]);  // AddressSanitizer detects an extra byte read
    ShortKey expected{0, 0};
    for (std::size_t i = 0; i < bytes; ++i) {
      key[i] = static_cast<char>(0x81 + i);
      (i < 8 ? expected.low : expected.high) |= (0x81 + i) << (8 * (i % 8));
    }
    const ShortKey got = load_short_key(key.get(), bytes);
    EXPECT_EQ(got.low, expected.low) << bytes;
    EXPECT_EQ(got.high, expected.high) << bytes;
  }
}

// Every bit of the key, the length and the seed changes every bit of the hash half of the time.
TEST(ShortHash, Avalanche) {
  std::mt19937_64 random(5);
  constexpr int trials = 2000;
  constexpr int inputs = 128 + 4 + 64;
  std::vector<std::array<int, 64>> flips(inputs);
  for (int t = 0; t < trials; ++t) {
    const ShortKey key{random(), random()};
    const std::uint64_t seed = random(), before = short_hash_of(key, 8, seed);
    for (int b = 0; b < inputs; ++b) {
      ShortKey other = key;
      std::size_t bytes = 8;
      std::uint64_t other_seed = seed;
      if (b < 64) {
        other.low ^= std::uint64_t{1} << b;
      } else if (b < 128) {
        other.high ^= std::uint64_t{1} << (b - 64);
      } else if (b < 132) {
        bytes ^= std::size_t{1} << (b - 128);
      } else {
        other_seed ^= std::uint64_t{1} << (b - 132);
      }
      const std::uint64_t changed = before ^ short_hash_of(other, bytes, other_seed);
      for (unsigned o = 0; o < 64; ++o) flips[static_cast<std::size_t>(b)][o] += (changed >> o & 1) != 0 ? 1 : 0;
    }
  }
  // No count of 12,544 fair coins deviates by 6 standard deviations.
  const double bound = 6 * std::sqrt(trials * 0.25);
  for (const auto& of_input : flips) {
    for (const int n : of_input) EXPECT_LT(std::abs(n - trials / 2.0), bound);
  }
}

// Typical programs' keys spread like random numbers over buckets, and their signatures collide as rarely.
TEST(ShortHash, KeysOfProgramsSpread) {
  constexpr std::size_t keys = 1 << 17, buckets = 1 << 14;
  std::mt19937_64 random(7);
  using Make = std::string (*)(std::size_t, std::mt19937_64&);
  constexpr Make kinds[] = {
      [](std::size_t i, std::mt19937_64&) { return std::to_string(i); },
      [](std::size_t i, std::mt19937_64&) { return "user:" + std::to_string(1'000'000 + i); },
      [](std::size_t i, std::mt19937_64&) { return std::string(reinterpret_cast<const char*>(&i), 8); },
      [](std::size_t i, std::mt19937_64&) {
        return std::string(8, '\0') + std::string(reinterpret_cast<char*>(&i), 8);
      },
      [](std::size_t i, std::mt19937_64&) {
        return std::string(i % 16, 'a') + static_cast<char>(i / 16 % 256) +
               std::to_string(i / 4096).substr(0, 15 - i % 16);
      },
      [](std::size_t, std::mt19937_64& r) {
        char hex[17];
        std::snprintf(hex, sizeof hex, "%08x-%07x", static_cast<unsigned>(r()), static_cast<unsigned>(r() >> 36));
        return std::string(hex);
      },
  };
  for (const Make make : kinds) {
    std::vector<int> load(buckets);
    std::unordered_set<std::string> distinct;
    std::unordered_set<std::uint32_t> signatures;
    for (std::size_t i = 0; i < keys; ++i) {
      const std::string key = make(i, random);
      if (!distinct.insert(key).second) continue;
      const Fingerprint f = fingerprint_of(key, 11);
      ++load[f.hash % buckets];
      signatures.insert(f.signature);
    }
    const double mean = static_cast<double>(distinct.size()) / buckets;
    double chi2 = 0;
    for (const int n : load) chi2 += (n - mean) * (n - mean) / mean;
    EXPECT_NEAR(chi2, buckets, 6 * std::sqrt(2.0 * buckets)) << make(1, random);
    // n^2 / 2^33 = 2 are expected.
    EXPECT_LE(distinct.size() - signatures.size(), 14u) << make(1, random);
  }
}

}  // namespace
}  // namespace tandem
