#include "base/hash.hpp"

#include <gtest/gtest.h>

#include <string>
#include <unordered_set>

namespace tandem {
namespace {

TEST(Hash, DependsOnAllBytesTheLengthAndTheSeed) {
  const Fingerprint f = fingerprint_of("key", 1);
  EXPECT_EQ(f, fingerprint_of(std::string("key"), 1));
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

}  // namespace
}  // namespace tandem
