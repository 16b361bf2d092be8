#include "bench/workload/spec.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <vector>

#include "bench/workload/keys.hpp"

namespace tandem::workload {
namespace {

constexpr std::array<std::string_view, op_kind_count> kind_names{"get",  "set",    "insert", "read_modify_write",
                                                                 "scan", "remove", "touch"};

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument("workload: " + why); }

Mix mix_of(std::initializer_list<std::pair<OpKind, double>> shares) {
  Mix mix;
  for (const auto& [kind, share] : shares) mix[kind] = share;
  return mix;
}

struct Ycsb {
  std::string_view name, summary;
  Mix mix;
  Popularity popularity;
};

const std::array<Ycsb, 6>& all_ycsb() {
  using enum OpKind;
  static const std::array<Ycsb, 6> all{{
      {"ycsb-a", "update heavy: 50 % reads, 50 % updates, zipf 0.99", mix_of({{get, 0.5}, {set, 0.5}}),
       Popularity::zipf},
      {"ycsb-b", "read mostly: 95 % reads, 5 % updates, zipf 0.99", mix_of({{get, 0.95}, {set, 0.05}}),
       Popularity::zipf},
      {"ycsb-c", "read only, zipf 0.99", mix_of({{get, 1.0}}), Popularity::zipf},
      {"ycsb-d", "read latest: 95 % reads, 5 % inserts, the latest most popular", mix_of({{get, 0.95}, {insert, 0.05}}),
       Popularity::latest},
      {"ycsb-e", "short ranges: 95 % scans of 1 to 100 keys, 5 % inserts, zipf 0.99 (--protocol meta)",
       mix_of({{scan, 0.95}, {insert, 0.05}}), Popularity::zipf},
      {"ycsb-f", "read-modify-write: 50 % reads, 50 % read and written back, zipf 0.99",
       mix_of({{get, 0.5}, {read_modify_write, 0.5}}), Popularity::zipf},
  }};
  return all;
}

struct Pool {
  std::string_view name, summary;
  double get_share;
};
constexpr std::array<Pool, 5> pools{{
    {"etc", "Facebook's general-purpose pool: GET : SET 30 : 1, sizes of the published model", 30.0 / 31},
    {"usr", "Facebook's user-account pool: 99.8 % GETs, keys of 16 or 21 bytes, values of 2", 0.998},
    {"app", "Facebook's application pool, by its text: 31-byte keys, values around 270", 0.95},
    {"var", "Facebook's browser-information pool, by its text: 18 % GETs, 31-byte keys", 0.18},
    {"sys", "Facebook's service-location pool, a stand-in: its sizes and shares are only drawn", 0.95},
}};

struct KeyValue {
  std::uint32_t key_bytes, value_bytes;
};
constexpr std::array<KeyValue, 4> dido_sizes{{{8, 8}, {16, 64}, {32, 256}, {128, 1024}}};

std::vector<Preset> list_presets() {
  std::vector<Preset> list;
  for (const Ycsb& y : all_ycsb()) list.push_back({std::string(y.name), std::string(y.summary)});
  for (const Pool& p : pools) list.push_back({std::string(p.name), std::string(p.summary)});
  for (const KeyValue& size : dido_sizes) {
    for (const char* share : {"50", "95", "100"}) {
      for (const char* popularity : {"U", "S"}) {
        list.push_back({"K" + std::to_string(size.key_bytes) + "-G" + share + '-' + popularity,
                        "DIDO's: " + std::to_string(size.key_bytes) + "/" + std::to_string(size.value_bytes) +
                            " bytes, " + share + " % GETs, " + (*popularity == 'U' ? "uniform" : "zipf 0.99")});
      }
    }
  }
  return list;
}

// The number in `part` after its first letter, if that is `letter` and only digits follow.
std::optional<std::uint32_t> number_after(char letter, std::string_view part) {
  if (part.size() < 2 || part.front() != letter) return std::nullopt;
  std::uint32_t n = 0;
  const auto [stop, error] = std::from_chars(part.data() + 1, part.data() + part.size(), n);
  if (error != std::errc{} || stop != part.data() + part.size()) return std::nullopt;
  return n;
}

// "k16", and "k16..128": all lengths of a range.
std::optional<Sizes> key_sizes_of(std::string_view part) {
  const std::size_t dots = part.find("..");
  const auto low = number_after('k', part.substr(0, dots));
  if (!low) return std::nullopt;
  if (dots == std::string_view::npos) return Sizes::fixed(*low);
  const std::string high_part = "k" + std::string(part.substr(dots + 2));
  const auto high = number_after('k', high_part);
  return high && *high > *low ? std::optional(Sizes{SizeModel::uniform, *low, *high}) : std::nullopt;
}

// "k8-g95-u", of one of DIDO's sizes, or "k32-v512-g95-s" and "k16..128-v2-g100-u", of any.
std::optional<Spec> dido_preset(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= name.size() && parts.size() < 5;) {
    const std::size_t dash = std::min(name.find('-', at), name.size());
    parts.push_back(name.substr(at, dash - at));
    at = dash + 1;
  }
  if (parts.size() != 3 && parts.size() != 4) return std::nullopt;
  const auto key_bytes = key_sizes_of(parts.front());
  const auto get_percent = number_after('g', parts[parts.size() - 2]);
  std::optional<std::uint32_t> value_bytes;
  if (parts.size() == 4) {
    value_bytes = number_after('v', parts[1]);
  } else if (const auto* const size =
                 std::ranges::find(dido_sizes, key_bytes ? key_bytes->high : 0, &KeyValue::key_bytes);
             size != dido_sizes.end() && key_bytes->model == SizeModel::fixed) {
    value_bytes = size->value_bytes;
  }
  if (!key_bytes || key_bytes->low < key_bytes_min || key_bytes->high > key_bytes_max) return std::nullopt;
  if (get_percent.value_or(101) > 100) return std::nullopt;
  if (value_bytes.value_or(value_bytes_limit + 1) > value_bytes_limit) return std::nullopt;
  if (parts.back() != "u" && parts.back() != "s") return std::nullopt;
  Spec spec;
  spec.key_bytes = *key_bytes;
  spec.value_bytes = Sizes::fixed(*value_bytes);
  spec.mix = Mix::get_set(*get_percent / 100.0);
  spec.popularity = parts.back() == "u" ? Popularity::uniform : Popularity::zipf;
  return spec;
}

std::optional<Spec> find_preset(std::string_view name) {
  Spec spec;
  for (const Ycsb& y : all_ycsb()) {
    if (y.name != name) continue;
    spec.key_bytes = Sizes::fixed(23);  // "user" and 19 digits
    spec.value_bytes = Sizes::fixed(1000);
    spec.mix = y.mix;
    spec.popularity = y.popularity;
    return spec;
  }
  for (const Pool& p : pools) {
    if (p.name != name) continue;
    spec.key_bytes = parse_key_sizes(name);
    spec.value_bytes = parse_value_sizes(name);
    spec.mix = Mix::get_set(p.get_share);
    return spec;
  }
  return dido_preset(name);
}

void check_sizes(const Sizes& sizes, const char* what, std::uint32_t least, std::uint32_t most) {
  if (sizes.low > sizes.high) refuse(std::string(what) + " sizes are an empty range");
  if (sizes.low < least || sizes.high > most)
    refuse(std::string(what) + " size must be " + std::to_string(least) + " to " + std::to_string(most) + " bytes");
}

}  // namespace

std::string_view to_string(OpKind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

std::string_view to_string(Popularity popularity) {
  constexpr std::array<std::string_view, 4> names{"uniform", "zipf", "sequential", "latest"};
  return names[static_cast<std::size_t>(popularity)];
}

Mix Mix::get_set(double get_share) { return mix_of({{OpKind::get, get_share}, {OpKind::set, 1 - get_share}}); }

void validate(const Spec& spec) {
  check_sizes(spec.key_bytes, "key", key_bytes_min, key_bytes_max);
  check_sizes(spec.value_bytes, "value", 0, value_bytes_limit);
  if (spec.keys == 0) refuse("there must be at least one key");
  // Half of the numbers that the shortest key can represent, so that inserts find new ones.
  const std::uint32_t number_bits = std::min<std::uint32_t>(spec.key_bytes.least() * 4, 63);
  const bool has_inserts = spec.mix[OpKind::insert] > 0;
  if (spec.keys > std::uint64_t{1} << (has_inserts ? number_bits - 1 : number_bits)) {
    refuse("keys of " + std::to_string(spec.key_bytes.least()) + " bytes are too short for " +
           std::to_string(spec.keys) + " of them" + (has_inserts ? " and inserts" : ""));
  }
  double sum = 0;
  for (const double share : spec.mix.share) {
    if (!(share >= 0 && share <= 1)) refuse("the share of an operation must be 0 to 1");
    sum += share;
  }
  if (std::abs(sum - 1) > 1e-9) refuse("the shares of the operations must add up to 1");
  const bool is_ranked = spec.popularity == Popularity::zipf || spec.popularity == Popularity::latest;
  if (is_ranked && !(spec.theta >= 0 && spec.theta <= 100)) refuse("theta must be 0 to 100");
  if (spec.mix[OpKind::scan] > 0 && spec.scan_keys_min == 0) refuse("a scan must have at least one key");
  if (spec.scan_keys_min > spec.scan_keys_max) refuse("the keys of a scan are an empty range");
  if (spec.shift_ops != 0 && spec.popularity != Popularity::zipf) refuse("only zipf's popularity can shift");
  if ((spec.shift_ops == 0) != (spec.shift_keys == 0))
    refuse("shifting popularity needs both how often and how far it shifts");
}

std::span<const Preset> all_presets() {
  static const std::vector<Preset> presets = list_presets();
  return presets;
}

Spec preset(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (auto spec = find_preset(lower)) {
    spec->name = lower.starts_with('k') ? name : lower;
    if (lower.starts_with('k')) {
      std::ranges::transform(spec->name, spec->name.begin(),
                             [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    }
    return *spec;
  }
  throw std::invalid_argument("unknown workload \"" + std::string(name) +
                              "\": ycsb-a to ycsb-f, etc, usr, app, var, sys, or one such as K16-G95-S");
}

}  // namespace tandem::workload
