// Requests for tests of the router: keys by a zipf law of their ranks, scrambled, and what a trainer makes of them.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "router/popularity.hpp"

namespace tandem {

// Ranks 0 .. keys - 1 by the law's integral; theta 0: uniform. The draw k has rank k + offset: a shift of popularity.
class DrawnKeys {
 public:
  DrawnKeys(std::uint64_t keys, double theta, std::uint64_t seed) noexcept
      : random_(seed), power_(1 / (1 - theta)), span_(std::pow(static_cast<double>(keys), 1 - theta) - 1) {}

  std::uint64_t draw() noexcept {
    const double u = static_cast<double>(random_() >> 11) * 0x1p-53;
    return static_cast<std::uint64_t>(std::pow(span_ * u + 1, power_)) - 1 + offset_;
  }
  void shift(std::uint64_t ranks) noexcept { offset_ += ranks; }

  // A bijection: no two ranks have one fingerprint. Its bits are as those of a hashed key.
  static Fingerprint fingerprint(std::uint64_t rank) noexcept {
    std::uint64_t x = rank + 0x9e37'79b9'7f4a'7c15;
    x = (x ^ x >> 30) * 0xbf58'476d'1ce4'e5b9;
    x = (x ^ x >> 27) * 0x94d0'49bb'1331'11eb;
    x ^= x >> 31;
    return {static_cast<std::uint32_t>(x >> 32), static_cast<std::uint32_t>(x)};
  }

 private:
  std::mt19937_64 random_;
  double power_, span_;
  std::uint64_t offset_ = 0;
};

// Trains on so many draws; counts[rank] grows where it is given.
inline void train(Popularity& popularity, DrawnKeys& keys, std::uint64_t count,
                  std::vector<std::uint32_t>* counts = nullptr) {
  std::array<Sample, 256> some;
  for (std::uint64_t done = 0; done < count; done += some.size()) {
    for (Sample& sample : some) {
      const std::uint64_t rank = keys.draw();
      if (counts != nullptr) ++(*counts)[rank];
      sample = Sample::of(DrawnKeys::fingerprint(rank), false);
    }
    popularity.train(some);
  }
}

// The share of draws that are of hot keys.
inline double hot_share_of(const HotModel& model, DrawnKeys keys, unsigned draws = 100'000) {
  unsigned hot = 0;
  for (unsigned i = 0; i < draws; ++i) hot += model.is_hot(DrawnKeys::fingerprint(keys.draw()));
  return static_cast<double>(hot) / draws;
}

}  // namespace tandem
