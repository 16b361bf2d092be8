// What the subjects of a cell check alike: how long a turn is, and that its counts and replies are as the tape has it.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "bench/engine/subject.hpp"

namespace tandem::bench {

inline constexpr double without_end_s = 1e9;

inline double seconds_of(const TurnLength& length) { return length.ops != 0 ? without_end_s : length.seconds; }
inline std::uint64_t ops_of(const TurnLength& length) {
  return length.ops != 0 ? length.ops : std::numeric_limits<std::uint64_t>::max();
}

inline void expect_count(std::uint64_t expected, std::uint64_t got, std::string_view what, std::uint64_t& errors,
                         ReplyErrors& all) {
  if (expected == got) return;
  if (all.count() == 0) all.first = fmt::format("{} {} of {}", got, what, expected);
  errors += expected > got ? expected - got : got - expected;
}

// Misses that so many operations may have, where sets that were full by chance have evicted some of the keys. Which
// ones is left open; popular ones weigh more.
inline std::uint64_t misses_max(const CellTapes& tapes, std::uint64_t ops) {
  if (!tapes.may_evict) return 0;
  constexpr double weight = 4, least = 0.002;
  return static_cast<std::uint64_t>(static_cast<double>(ops) * (weight * tapes.evicted_share + least));
}

inline void expect_hits(Measured& m, const CellTapes& tapes) {
  const std::uint64_t expected = m.gets - m.misses_expected;
  if (m.hits <= expected && expected - m.hits <= misses_max(tapes, m.gets)) return;
  expect_count(expected, m.hits, "GETs hit", m.errors.unexpected_misses, m.errors);
}

// Of a full verification.
inline ReplyErrors all_of(const std::vector<ReplyErrors>& errors, const CellTapes& tapes, std::uint64_t ops) {
  ReplyErrors all;
  for (const ReplyErrors& e : errors) all.add(e);
  if (all.count() == all.unexpected_misses && all.count() <= misses_max(tapes, ops)) {
    all.unexpected_misses = 0;
    all.first.clear();
  }
  return all;
}

inline std::uint64_t ops_of(const CellTapes& tapes) {
  std::uint64_t ops = 0;
  for (const auto& of_thread : tapes.of_thread) {
    for (const auto& tape : of_thread) ops += tape->ops().size();
  }
  return ops;
}

}  // namespace tandem::bench
