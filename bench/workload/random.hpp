// Random numbers that are equal on every machine for the same seed.
#pragma once
#include <cstdint>

namespace tandem::workload {

// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection of 64-bit words.
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// SplitMix64. Seeds that differ in one bit give unrelated sequences. Thread safety: none.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) noexcept : state_(mix64(seed + golden)) {}

  constexpr std::uint64_t next() noexcept { return mix64(state_ += golden); }

  // Uniform in [0, bound), bound > 0; off by at most bound / 2^64.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{next()} * bound >> 64);
  }

  // Uniform in [0, 1), in steps of 2^-53.
  constexpr double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15U;
  std::uint64_t state_;
};

}  // namespace tandem::workload
