// For tests: keys with fingerprints that an index cannot distinguish, found by hashing many.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"

namespace tandem {

struct CollidingKeys {
  std::string a, b;
};

// `count` pairs of keys with one signature and the same two buckets in a table of 64 buckets (the smallest) or fewer.
inline std::vector<CollidingKeys> colliding_keys(std::uint64_t seed, std::size_t count) {
  constexpr std::uint64_t numbers = std::uint64_t{1} << 21, slots = std::uint64_t{1} << 25;
  constexpr unsigned bucket_bits = 6;
  const auto name_of = [](std::uint64_t number) { return "key" + std::to_string(number); };
  const auto code_of = [seed](std::uint64_t number) {
    char name[256] = "key";  // as name_of(): there are millions, also under sanitizers
    const char* const end = std::to_chars(name + 3, name + sizeof name, number).ptr;
    const Fingerprint f = fingerprint_of({name, static_cast<std::size_t>(end - name)}, seed);
    return std::uint64_t{f.signature} << bucket_bits | (f.hash & ((1u << bucket_bits) - 1));
  };
  // Few keys share a slot by a part of their code, and only those are sorted: tests run this without optimisation, too.
  const auto times = std::make_unique<std::uint8_t[]>(slots);
  const auto codes = std::make_unique<std::uint64_t[]>(numbers);
  for (std::uint64_t number = 0; number < numbers; ++number) {
    codes[number] = code_of(number);
    std::uint8_t& seen = times[codes[number] % slots];
    seen = static_cast<std::uint8_t>(seen | (seen + 1));
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> shared;  // code, number
  for (std::uint64_t number = 0; number < numbers; ++number) {
    if (times[codes[number] % slots] > 1) shared.emplace_back(codes[number], number);
  }
  std::ranges::sort(shared);
  std::vector<CollidingKeys> pairs;
  for (std::size_t i = 1; i < shared.size() && pairs.size() < count; ++i) {
    if (shared[i - 1].first == shared[i].first)
      pairs.push_back({name_of(shared[i - 1].second), name_of(shared[i].second)});
  }
  if (pairs.size() < count) throw std::runtime_error("too few keys collide under this seed");
  return pairs;
}

}  // namespace tandem
