#include "bench/workload/sizes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "bench/workload/keys.hpp"

namespace tandem::workload {
namespace {

double unit_of(std::uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

// The size of most items, and a range for the rest.
struct Peak {
  double share;
  std::uint32_t bytes, low, high;
};
constexpr Peak app_key{0.9, 31, 16, 60}, app_value{0.3, 270, 1, 500};
constexpr Peak var_key{0.9, 31, 16, 60}, var_value{0, 0, 1, 500};
constexpr Peak sys_key{0, 0, 16, 60}, sys_value{0, 0, 1, 500};
constexpr Peak usr_value{1, 2, 0, 0};

const Peak* peak_of(SizeModel model) {
  switch (model) {
    case SizeModel::app_key:
      return &app_key;
    case SizeModel::app_value:
      return &app_value;
    case SizeModel::var_key:
      return &var_key;
    case SizeModel::var_value:
      return &var_value;
    case SizeModel::sys_key:
      return &sys_key;
    case SizeModel::sys_value:
      return &sys_value;
    case SizeModel::usr_value:
      return &usr_value;
    default:
      return nullptr;
  }
}

std::uint32_t draw(const Peak& peak, double u) {
  if (u < peak.share) return peak.bytes;
  const double rest = (u - peak.share) / (1 - peak.share);
  return peak.low + std::min(peak.high - peak.low, static_cast<std::uint32_t>(rest * (peak.high - peak.low + 1)));
}

double share_up_to(const Peak& peak, std::uint32_t bytes) {
  const double below = std::clamp((static_cast<double>(bytes) + 1 - peak.low) / (peak.high - peak.low + 1.0), 0.0, 1.0);
  return (bytes >= peak.bytes ? peak.share : 0) + (peak.share < 1 ? (1 - peak.share) * below : 0);
}

// Table 5 of the paper.
constexpr std::array<double, 15> etc_small_values{0.00536, 0.00047, 0.17820, 0.09239, 0.00018,
                                                  0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
                                                  0.00837, 0.08989, 0.00092, 0.00326, 0.01980};
constexpr double etc_value_sigma = 214.476, etc_value_k = 0.348238;
constexpr double etc_key_mu = 30.7984, etc_key_sigma = 8.20449, etc_key_k = 0.078688;

constexpr auto etc_small_values_up_to = [] {
  std::array<double, etc_small_values.size()> sums{};
  double sum = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sum += etc_small_values[i];
  return sums;
}();
constexpr double etc_small_share = etc_small_values_up_to.back();

std::uint32_t draw_etc_value(double u) {
  if (u < etc_small_share) {
    std::uint32_t bytes = 0;
    while (u >= etc_small_values_up_to[bytes]) ++bytes;
    return bytes;
  }
  const double above = (1 - u) / (1 - etc_small_share);
  const double x = etc_value_sigma / etc_value_k * (std::pow(above, -etc_value_k) - 1);
  return x < value_bytes_limit ? 15 + static_cast<std::uint32_t>(x) : value_bytes_limit;
}

double etc_value_share_up_to(std::uint32_t bytes) {
  if (bytes < etc_small_values_up_to.size()) return etc_small_values_up_to[bytes];
  const double x = static_cast<double>(bytes) + 1 - 15;
  const double above = std::pow(1 + etc_value_k * x / etc_value_sigma, -1 / etc_value_k);
  return 1 - (1 - etc_small_share) * above;
}

double etc_key_share_up_to(std::uint32_t bytes) {
  const double t = 1 + etc_key_k * (static_cast<double>(bytes) + 0.5 - etc_key_mu) / etc_key_sigma;
  return t > 0 ? std::exp(-std::pow(t, -1 / etc_key_k)) : 0;
}

// The quantiles of etc's keys: a logarithm and a power for each key of each request would cost more than the rest of
// it.
class EtcKeys {
 public:
  EtcKeys() {
    for (std::uint32_t b = 0; b <= key_bytes_max; ++b) limit_[b] = b < key_bytes_max ? etc_key_share_up_to(b) : 1;
    std::uint32_t b = 0;
    for (std::uint32_t i = 0; i < start_.size(); ++i) {
      while (limit_[b] <= static_cast<double>(i) / static_cast<double>(start_.size())) ++b;
      start_[i] = static_cast<std::uint8_t>(b);
    }
  }

  std::uint32_t draw(double u) const {
    std::uint32_t b = start_[static_cast<std::size_t>(u * static_cast<double>(start_.size()))];
    while (limit_[b] <= u) ++b;
    return b;
  }

 private:
  std::array<double, key_bytes_max + 1> limit_;
  std::array<std::uint8_t, 512> start_;  // the size of a quantile of i / 512
};

std::uint32_t draw_etc_key(double u) {
  static const EtcKeys keys;
  return keys.draw(u);
}

std::uint32_t parse_number(std::string_view digits, std::string_view all, const char* what) {
  std::uint32_t n = 0;
  const char *const begin = digits.data(), *const end = begin + digits.size();
  const auto [stop, error] = std::from_chars(begin, end, n);
  if (error == std::errc::result_out_of_range)
    throw std::invalid_argument(std::string(what) + " too large: " + std::string(all));
  if (error != std::errc{} || stop != end) {
    throw std::invalid_argument(std::string(what) +
                                " must be a number, a range such as 16-128, etc, usr, app, var or sys, not \"" +
                                std::string(all) + '"');
  }
  return n;
}

Sizes parse(std::string_view text, const char* what, std::uint32_t least, std::uint32_t most) {
  const std::size_t dash = text.find('-');
  Sizes sizes;
  sizes.low = parse_number(text.substr(0, dash), text, what);
  sizes.high = dash == std::string_view::npos ? sizes.low : parse_number(text.substr(dash + 1), text, what);
  sizes.model = sizes.low == sizes.high ? SizeModel::fixed : SizeModel::uniform;
  if (sizes.low > sizes.high)
    throw std::invalid_argument(std::string(what) + ": the range " + std::string(text) + " is empty");
  if (sizes.low < least || sizes.high > most) {
    throw std::invalid_argument(std::string(what) + " must be " + std::to_string(least) + " to " +
                                std::to_string(most) + " bytes, not " + std::string(text));
  }
  return sizes;
}

constexpr std::uint32_t etc_value_bytes_max = 1'000'000;

struct NamedSizes {
  std::string_view name;
  Sizes key, value;
};
constexpr std::array<NamedSizes, 5> named{{
    {"etc", {SizeModel::etc_key, key_bytes_min, key_bytes_max}, {SizeModel::etc_value, 0, etc_value_bytes_max}},
    {"usr", {SizeModel::usr_key, 16, 21}, {SizeModel::usr_value, 2, 2}},
    {"app", {SizeModel::app_key, 16, 60}, {SizeModel::app_value, 1, 500}},
    {"var", {SizeModel::var_key, 16, 60}, {SizeModel::var_value, 1, 500}},
    {"sys", {SizeModel::sys_key, 16, 60}, {SizeModel::sys_value, 1, 500}},
}};

}  // namespace

std::uint32_t Sizes::of(std::uint64_t word) const noexcept {
  std::uint32_t bytes;
  switch (model) {
    case SizeModel::fixed:
      return low;
    case SizeModel::uniform: {
      __extension__ using Wide = unsigned __int128;
      return low + static_cast<std::uint32_t>(Wide{word} * (high - low + std::uint64_t{1}) >> 64);
    }
    case SizeModel::etc_key:
      bytes = draw_etc_key(unit_of(word));
      break;
    case SizeModel::etc_value:
      bytes = draw_etc_value(unit_of(word));
      break;
    case SizeModel::usr_key:
      bytes = word >> 63 == 0 ? 16 : 21;
      break;
    default:
      bytes = draw(*peak_of(model), unit_of(word));
  }
  return std::clamp(bytes, low, high);
}

double Sizes::share_up_to(std::uint32_t bytes) const {
  if (bytes < low) return 0;
  if (bytes >= high) return 1;
  switch (model) {
    case SizeModel::fixed:
      return 1;
    case SizeModel::uniform:
      return (static_cast<double>(bytes) + 1 - low) / (static_cast<double>(high) + 1 - low);
    case SizeModel::etc_key:
      return etc_key_share_up_to(bytes);
    case SizeModel::etc_value:
      return etc_value_share_up_to(bytes);
    case SizeModel::usr_key:
      return bytes < 16 ? 0 : bytes < 21 ? 0.5 : 1;
    default:
      return workload::share_up_to(*peak_of(model), bytes);
  }
}

// The sum of the shares above each size.
double Sizes::mean() const {
  if (model == SizeModel::fixed || model == SizeModel::uniform) return (static_cast<double>(low) + high) / 2;
  double sum = low;
  for (std::uint32_t b = low; b < high; ++b) sum += 1 - share_up_to(b);
  return sum;
}

Sizes parse_key_sizes(std::string_view text) {
  for (const NamedSizes& n : named) {
    if (n.name == text) return n.key;
  }
  return parse(text, "key size", key_bytes_min, key_bytes_max);
}

Sizes parse_value_sizes(std::string_view text) {
  for (const NamedSizes& n : named) {
    if (n.name == text) return n.value;
  }
  return parse(text, "value size", 0, value_bytes_limit);
}

std::string to_string(const Sizes& sizes) {
  if (sizes.model == SizeModel::fixed) return std::to_string(sizes.low);
  for (const NamedSizes& n : named) {
    if (n.key.model == sizes.model || n.value.model == sizes.model) return std::string(n.name);
  }
  return std::to_string(sizes.low) + '-' + std::to_string(sizes.high);
}

}  // namespace tandem::workload
