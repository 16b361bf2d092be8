// The operations of one client: the same spec, seed and stream number give the same operations.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "bench/workload/random.hpp"
#include "bench/workload/spec.hpp"
#include "bench/workload/zipf.hpp"

namespace tandem::workload {

struct Op {
  OpKind kind;
  std::uint32_t scan_keys = 0;  // of a scan, from `key` on
  std::uint64_t key;            // its number; inserts use numbers from Spec::keys on, each stream its own
};

// Popular ranks are scattered over the keys by a bijection: popular keys must not be neighbours in a server's memory.
// All streams of a seed have the same popular keys.
//
// Sequential streams together visit all keys once a lap: stream i of c takes i, i + c, ... and starts again. With
// `latest` the rank counts back over the stream's own inserts and then over the initial keys, always a window of
// Spec::keys keys; with the other popularities inserted keys are not requested again (in YCSB they would be, once other
// clients have reported them).
// Thread safety: none.
class Stream {
 public:
  // Stream `index` of `count`. Throws std::invalid_argument as validate() does.
  Stream(const Spec& spec, std::uint32_t index, std::uint32_t count);
  Op next() noexcept;

 private:
  OpKind draw_kind() noexcept;
  std::uint64_t draw_key() noexcept;
  std::uint64_t inserted_key(std::uint64_t nth) const noexcept { return spec_.keys + first_ + nth * step_; }

  Spec spec_;
  Random random_;
  std::optional<Zipf> zipf_;
  std::array<std::uint64_t, op_kind_count> kind_limit_{};  // of 53 random bits: below it this kind or an earlier one
  std::uint64_t first_, step_;
  std::uint64_t position_, inserted_ = 0;
  std::uint64_t until_shift_, shifted_ = 0;
};

// A pseudo-random bijection of [0, n), determined by n and seed; n > rank.
std::uint64_t scatter(std::uint64_t rank, std::uint64_t n, std::uint64_t seed) noexcept;

}  // namespace tandem::workload
