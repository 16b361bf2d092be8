// The operations of one client: the same spec, seed and stream number give the same operations.
#pragma once
#include <cstdint>
#include <optional>

#include "workload/random.hpp"
#include "workload/spec.hpp"
#include "workload/zipf.hpp"

namespace tandem::workload {

struct Op {
  OpKind kind;
  std::uint32_t scan_keys = 0;  // of a scan
  std::uint64_t key;            // its number; inserts take numbers from Spec::keys on, each stream its own
};

// Popular ranks are scattered over the keys by a bijection: popular keys must not be neighbours in a server's memory.
// Thread safety: none.
class Stream {
 public:
  // Stream `index` of `count`.
  Stream(const Spec& spec, std::uint32_t index, std::uint32_t count);
  Op next() noexcept;

 private:
  std::uint64_t draw_key() noexcept;

  Spec spec_;
  Random random_;
  std::optional<Zipf> zipf_;
  std::uint64_t position_, step_, inserted_ = 0, ops_ = 0, shifted_ = 0;
};

// A bijection of [0, n) that looks random and is the same for the same n and seed.
std::uint64_t scatter(std::uint64_t rank, std::uint64_t n, std::uint64_t seed) noexcept;

}  // namespace tandem::workload
