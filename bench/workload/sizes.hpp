// Sizes of keys and values: one number, a range, or a model of one of the five Memcached pools measured at Facebook
// (Atikoglu et al., "Workload Analysis of a Large-Scale Key-Value Store", SIGMETRICS 2012).
//
// The published data, and what replaces missing data:
//   etc keys    generalised extreme value distribution, mu 30.7984, sigma 8.20449, k 0.078688 (section 5), rounded to
//               the nearest byte (0.14 % up to 16 bytes, 44.17 % up to 32, 52.88 % up to 64, as "MemcachedGPU" counts)
//   etc values  0 to 14 bytes with the probabilities of table 5 (0.44155 together); beyond them 15 bytes and a
//               generalised Pareto distribution, theta 0, sigma 214.476, k 0.348238. Cut at 1,000,000 bytes: the paper
//               saw values "around 1 MB", and memcached's limit is there
//   usr         keys of 16 or 21 bytes and values of 2 (section 3.2). Their shares are only drawn: we take a half each
//   app         90 % of keys have 31 bytes, more than 30 % of values are around 270 bytes (section 3.2). The rest is
//               only drawn (figure 2), without figures: replaced by keys of 16 to 60 bytes and values of 1 to 500, all
//               equally likely
//   var         90 % of keys have 31 bytes (slide 9 of the authors' talk; section 3.2 says so of APP). The rest as app
//   sys         only drawn: replaced by keys of 16 to 60 bytes and values of 1 to 500, all equally likely
//   All but etc have 90 % of their bytes in values below 500 (section 3.2), hence that bound.
// Keys of fewer than 8 bytes, of which etc has 1 in 10^10, become 8 bytes; those above 250 (6 in 10^7) become 250.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::workload {

enum class SizeModel : std::uint8_t {
  fixed,
  uniform,
  etc_key,
  etc_value,
  usr_key,
  usr_value,
  app_key,
  app_value,
  var_key,
  var_value,
  sys_key,
  sys_value
};

// A size that follows from a word: the same word always has the same size, random words have the model's distribution.
// Thread safety: immutable.
struct Sizes {
  SizeModel model = SizeModel::fixed;
  std::uint32_t low = 0, high = 0;  // of fixed (both equal) and uniform; limits of the models

  static Sizes fixed(std::uint32_t bytes) { return {SizeModel::fixed, bytes, bytes}; }
  std::uint32_t of(std::uint64_t word) const noexcept;
  std::uint32_t least() const noexcept { return low; }
  std::uint32_t most() const noexcept { return high; }
  double mean() const;  // of the model, cut to [low, high]
  // The share of words with a size of at most `bytes`.
  double share_up_to(std::uint32_t bytes) const;

  friend bool operator==(const Sizes&, const Sizes&) = default;
};

inline constexpr std::uint32_t value_bytes_limit = 1U << 30;  // memcached's own limit for -I

// "64", "16-128", "etc", "usr", "app", "var", "sys"; throws std::invalid_argument with a message for users.
Sizes parse_key_sizes(std::string_view text);
Sizes parse_value_sizes(std::string_view text);
std::string to_string(const Sizes& sizes);

}  // namespace tandem::workload
