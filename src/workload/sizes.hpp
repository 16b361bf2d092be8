// Sizes of keys and values: one number, a range, or one of the distributions measured at Facebook (Atikoglu et al.,
// "Workload Analysis of a Large-Scale Key-Value Store", SIGMETRICS 2012).
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

// A size that follows from a word: the same word always has the same size, words drawn at random have the model's
// distribution. Thread safety: immutable.
struct Sizes {
  SizeModel model = SizeModel::fixed;
  std::uint32_t low = 0, high = 0;  // of fixed (both the same) and uniform; bounds that cut the others

  static Sizes fixed(std::uint32_t bytes) { return {SizeModel::fixed, bytes, bytes}; }
  std::uint32_t of(std::uint64_t word) const noexcept;
  std::uint32_t least() const noexcept { return low; }
  std::uint32_t most() const noexcept { return high; }
  double mean() const;  // of the model, cut to [low, high]
};

// "64", "16-128", "etc", "usr", "app", "var", "sys"; throws std::invalid_argument with a message for people.
Sizes parse_key_sizes(std::string_view text);
Sizes parse_value_sizes(std::string_view text);
std::string to_string(const Sizes& sizes);

}  // namespace tandem::workload
