// A workload: keys, sizes, popularity, the mix of operations, and their changes over time.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bench/workload/sizes.hpp"

namespace tandem::workload {

enum class OpKind : std::uint8_t { get, set, insert, read_modify_write, scan, remove, touch };
inline constexpr std::size_t op_kind_count = 7;
std::string_view to_string(OpKind kind);

// Shares of the operations; they add up to 1.
struct Mix {
  std::array<double, op_kind_count> share{};
  double& operator[](OpKind kind) { return share[static_cast<std::size_t>(kind)]; }
  double operator[](OpKind kind) const { return share[static_cast<std::size_t>(kind)]; }
  static Mix get_set(double get_share);
};

// latest: zipf over how recently a key was inserted (YCSB D).
enum class Popularity : std::uint8_t { uniform, zipf, sequential, latest };
std::string_view to_string(Popularity popularity);

struct Spec {
  std::string name;  // of the preset it comes from; empty: none
  std::uint64_t keys = 1'000'000;
  Sizes key_bytes = Sizes::fixed(16);  // at least 8: contains the key's number (see keys.hpp)
  Sizes value_bytes = Sizes::fixed(64);
  Popularity popularity = Popularity::zipf;
  double theta = 0.99;  // of zipf and latest
  Mix mix = Mix::get_set(0.95);
  std::uint32_t ttl_s = 0;                               // of written values; 0: never expires
  std::uint32_t scan_keys_min = 1, scan_keys_max = 100;  // of a scan, all equally likely
  // Shifting popularity (zipf): after each `shift_ops` operations of a stream the ranks map to other keys, shifted by
  // `shift_keys`. 0: never.
  std::uint64_t shift_ops = 0, shift_keys = 0;
  std::uint64_t seed = 1;
};

// Throws std::invalid_argument with a message for users.
void validate(const Spec& spec);

struct Preset {
  std::string name, summary;
};
// ycsb-a .. ycsb-f (Cooper et al., SoCC 2010: 1,000 bytes in 10 fields, here one value; keys as long as theirs).
//
// etc, usr, app, var, sys: sizes.hpp gives the source of the sizes. GET shares: etc 30 : 1 and usr 99.8 % are in the
// paper's text; var is the write-dominated pool, with 18 %, the low end that DIDO's section II-C quotes; app's and
// sys's are only drawn (figure 1), and replaced by 95 %. Popularity is zipf 0.99 throughout, with the top 1 % of a
// million keys in 66 % of requests (ETC: 55 %).
//
// DIDO's K8-G95-U, K16-G50-S, ...: K8, K16, K32, K128 (keys of this many bytes, values of 8, 64, 256, 1024), G50, G95,
// G100 (any share of GETs in percent), U (uniform) or S (zipf 0.99). Mega-KV's four data sets have no such names and
// are the same except the third, with values of 512 bytes: K32-V512-G95-U, with the value size in the name. Keys of
// all lengths of a range, equally likely: K16..128-V2-G100-U.
std::span<const Preset> all_presets();
// Throws std::invalid_argument for an unknown name. Case does not matter.
Spec preset(std::string_view name);

}  // namespace tandem::workload
