// Which keys a benchmark client asks for, and what their bytes and values are.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace tandem::bench {

// splitmix64 (Steele, Lea, Flood 2014): small, and good enough to draw keys with.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound), bound <= 2^32; off by at most bound / 2^32.
  uint32_t below(uint64_t bound) { return static_cast<uint32_t>(((next() >> 32) * bound) >> 32); }

  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// Ranks 0 .. n-1 with probability proportional to (rank + 1)^-theta, drawn in constant time from Walker's alias table.
// Exact but for the 2^-32 steps of the table's thresholds. Thread safety: as its Random argument.
class ZipfSampler {
 public:
  ZipfSampler(uint32_t n, double theta) : slots_(n) {
    std::vector<double> weight(n);
    for (uint32_t i = 0; i < n; ++i) weight[i] = std::pow(static_cast<double>(i) + 1, -theta);
    const double scale = n / std::accumulate(weight.begin(), weight.end(), 0.0);
    std::vector<uint32_t> light;
    std::vector<uint32_t> heavy;
    for (uint32_t i = 0; i < n; ++i) {
      weight[i] *= scale;
      (weight[i] < 1 ? light : heavy).push_back(i);
    }
    while (!light.empty() && !heavy.empty()) {
      const uint32_t small = light.back();
      const uint32_t large = heavy.back();
      light.pop_back();
      slots_[small] = {static_cast<uint32_t>(weight[small] * 0x1p32), large};
      weight[large] -= 1 - weight[small];
      if (weight[large] < 1) {
        heavy.pop_back();
        light.push_back(large);
      }
    }
    for (const uint32_t i : heavy) slots_[i] = {UINT32_MAX, i};
    for (const uint32_t i : light) slots_[i] = {UINT32_MAX, i};
  }

  uint32_t draw(Random& random) const {
    const uint64_t bits = random.next();
    const auto slot = static_cast<uint32_t>(((bits >> 32) * slots_.size()) >> 32);
    return static_cast<uint32_t>(bits) < slots_[slot].threshold ? slot : slots_[slot].alias;
  }

 private:
  struct Slot {
    uint32_t threshold;
    uint32_t alias;
  };
  std::vector<Slot> slots_;
};

enum class Distribution : uint8_t { uniform, zipf, sequential };

// One step of a client: a key, and whether it is read or written.
//
//     31   30 ............ 0
//    [set][ key index      ]
struct Step {
  uint32_t word;

  static constexpr uint32_t set_bit = uint32_t{1} << 31;
  uint32_t key() const { return word & ~set_bit; }
  bool is_set() const { return (word & set_bit) != 0; }
};
static_assert(sizeof(Step) == 4);

struct WorkloadOptions {
  uint32_t key_count = 1'000'000;
  uint32_t key_bytes = 16;
  uint32_t value_bytes = 64;
  Distribution distribution = Distribution::zipf;
  double theta = 0.99;
  double get_ratio = 0.95;
  uint32_t step_count = 1U << 22;
  uint64_t seed = 1;
};

// The steps of a run, drawn beforehand (16 MiB, read in order), and the bytes of keys and values.
// A rank's key is found through a random permutation: popular keys must not be neighbours in the server's memory.
// Thread safety: immutable after construction.
class Workload {
 public:
  static constexpr uint32_t min_key_bytes = 8;
  static constexpr uint32_t max_key_bytes = 250;

  explicit Workload(const WorkloadOptions& options) : options_(options) {
    if (options.key_bytes < min_key_bytes || options.key_bytes > max_key_bytes)
      throw std::invalid_argument("key size must be 8 to 250 bytes");
    if (options.key_count == 0 || options.key_count >= Step::set_bit)
      throw std::invalid_argument("key count must be 1 to 2^31 - 1");
    Random random(options.seed);
    steps_.resize(options.distribution == Distribution::sequential ? options.key_count : options.step_count);
    const auto set_or_get = [&] { return random.unit() < options.get_ratio ? 0U : Step::set_bit; };
    switch (options.distribution) {
      case Distribution::sequential:
        for (uint32_t i = 0; i < steps_.size(); ++i) steps_[i].word = i | set_or_get();
        break;
      case Distribution::uniform:
        for (Step& step : steps_) step.word = random.below(options.key_count) | set_or_get();
        break;
      case Distribution::zipf: {
        const ZipfSampler sampler(options.key_count, options.theta);
        const std::vector<uint32_t> key_of_rank = permutation(options.key_count);
        for (Step& step : steps_) step.word = key_of_rank[sampler.draw(random)] | set_or_get();
        break;
      }
    }
  }

  const WorkloadOptions& options() const { return options_; }
  uint32_t step_count() const { return static_cast<uint32_t>(steps_.size()); }

  // `position` may run past the end by less than step_count(): the sequence repeats.
  Step step(uint32_t position) const { return steps_[position < steps_.size() ? position : position - steps_.size()]; }

  // Writes key_bytes bytes: a filler and the key's index in hexadecimal.
  char* write_key(uint32_t key, char* out) const {
    const uint32_t filler = options_.key_bytes - 8;
    std::memset(out, 'k', filler);
    uint64_t x = key;
    x = ((x & 0xffff0000U) << 16) | (x & 0xffffU);
    x = ((x & 0x0000ff000000ff00U) << 8) | (x & 0x000000ff000000ffU);
    x = ((x & 0x00f000f000f000f0U) << 4) | (x & 0x000f000f000f000fU);
    const uint64_t above_nine = ((x + 0x0606060606060606U) >> 4) & 0x0101010101010101U;
    x = x + 0x3030303030303030U + above_nine * ('a' - '0' - 10);
    if constexpr (std::endian::native == std::endian::little) x = __builtin_bswap64(x);
    std::memcpy(out + filler, &x, 8);
    return out + options_.key_bytes;
  }

  // Writes value_bytes bytes that follow from the key alone: any 8-bit values, so line ends occur in them too.
  char* write_value(uint32_t key, char* out) const {
    uint64_t word = key_word(key);
    char* const end = out + options_.value_bytes;
    while (end - out >= 8) {
      std::memcpy(out, &word, 8);
      out += 8;
      word = next_word(word);
    }
    std::memcpy(out, &word, static_cast<size_t>(end - out));
    return end;
  }

  bool value_matches(uint32_t key, const char* value) const {
    uint64_t word = key_word(key);
    uint64_t difference = 0;
    const char* const end = value + options_.value_bytes;
    while (end - value >= 8) {
      uint64_t got;
      std::memcpy(&got, value, 8);
      difference |= got ^ word;
      value += 8;
      word = next_word(word);
    }
    return difference == 0 && std::memcmp(value, &word, static_cast<size_t>(end - value)) == 0;
  }

 private:
  static uint64_t key_word(uint32_t key) { return Random(key).next(); }
  static uint64_t next_word(uint64_t word) { return word * 6364136223846793005U + 1442695040888963407U; }

  static std::vector<uint32_t> permutation(uint32_t n) {
    std::vector<uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0U);
    Random random(n);
    for (uint32_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    return order;
  }

  WorkloadOptions options_;
  std::vector<Step> steps_;
};

}  // namespace tandem::bench
