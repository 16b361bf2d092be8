// For tests: keys whose fingerprints an index cannot tell apart, found by hashing many.
#pragma once
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/hash.hpp"

namespace tandem {

struct CollidingKeys {
  std::string a, b;
};

// So many pairs of keys with one signature and the same two buckets in a table of 64 buckets (the smallest) or fewer.
inline std::vector<CollidingKeys> colliding_keys(std::uint64_t seed, std::size_t count) {
  constexpr unsigned number_bits = 21, bucket_bits = 6;
  const auto key_of = [](std::uint64_t number) { return "key" + std::to_string(number); };
  std::vector<std::uint64_t> seen;  // signature, bucket, number
  for (std::uint64_t number = 0; number < std::uint64_t{1} << number_bits; ++number) {
    const Fingerprint f = fingerprint_of(key_of(number), seed);
    const std::uint64_t bucket = f.hash & ((1u << bucket_bits) - 1);
    seen.push_back((std::uint64_t{f.signature} << bucket_bits | bucket) << number_bits | number);
  }
  std::ranges::sort(seen);
  std::vector<CollidingKeys> pairs;
  constexpr std::uint64_t number_mask = (std::uint64_t{1} << number_bits) - 1;
  for (std::size_t i = 1; i < seen.size() && pairs.size() < count; ++i) {
    if (seen[i - 1] >> number_bits == seen[i] >> number_bits)
      pairs.push_back({key_of(seen[i - 1] & number_mask), key_of(seen[i] & number_mask)});
  }
  if (pairs.size() < count) throw std::runtime_error("too few keys collide under this seed");
  return pairs;
}

}  // namespace tandem
