// The profile of a load, from differences of counters that exist and a sample of its keys: nothing is added to a
// query's path.
//
// Source: DIDO IV-B (zipf's exponent from sampled frequencies). Departure: pairs of equal keys in a sample in place of
// a counter and a timestamp in each object.
//
// Thread safety: values and pure functions.
#pragma once
#include <cstdint>
#include <span>

#include "planner/profile.hpp"

namespace tandem {

// Totals that only grow. bytes: of requests and replies.
struct LoadCounts {
  std::uint64_t gets = 0, sets = 0, bytes = 0;
};

// sampled: hashes of the keys of queries, neighbours of a stream; sorted by this call. keys: in the store, and
// store_bytes as Profile has it. REQUIRES: after is not before `before`. Without a query between them: zeros.
Profile profile_of(const LoadCounts& before, const LoadCounts& after, std::span<std::uint32_t> sampled, double keys,
                   double store_bytes) noexcept;

// The sum of the first n terms of zipf's series with this exponent. REQUIRES: n >= 1, 0 <= theta <= theta_max.
double harmonic(double n, double theta) noexcept;
inline constexpr double theta_max = 2;

// The exponent with which so many pairs of equal keys are expected among `sampled` draws of `keys` keys, 0 to
// theta_max. Below 0.5 it is hardly told from 0, where it does not matter.
double theta_of(double pairs, double sampled, double keys) noexcept;

// Share of the reads of keys that fit into a cache of `cache_bytes`, the most popular ones first (DIDO IV-B, P).
double cached_share(const Profile& profile, double cache_bytes) noexcept;

}  // namespace tandem
