// What a client asks for, drawn from a seed.
#pragma once
#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "history.hpp"

namespace tandem::record {

struct MixOptions {
  std::uint64_t seed = 1;
  std::uint32_t clients = 4;
  std::uint32_t hot_keys = 8;            // at a time; every other one has numbers
  std::uint32_t operations_a_key = 120;  // then other hot keys follow, and these lie on
  std::uint32_t burst_max = 6;           // operations that a client asks for together
  std::uint32_t large_burst_max = 0;     // of one burst in sixteen, if it is not 0
  std::uint32_t value_bytes_max = 100;   // sizes are spread over all magnitudes
  std::uint32_t value_sizes = 0;         // so many different ones, if it is not 0
  std::uint32_t ballast_percent = 20;    // operations on keys that are one client's: they fill the store
  std::uint32_t old_percent = 5;         // operations on hot keys of the past
  std::uint32_t rewrite_percent = 60;    // of values that have all one length, so that sets rewrite them in place
  std::uint32_t expiry_percent = 0;      // of stores and touches
  std::uint32_t details = 1;             // some stores have flags and long times to live; 0: none
  std::uint32_t touch_percent = 0;       // of operations on hot keys, beside those of the usual mix
  std::uint32_t flush_every = 0;         // bursts of a client; 0: never
  std::uint32_t scan_percent = 0;        // of operations; then ballast lies between the hot keys, and moves them apart
};

// The hot keys of now: all clients ask for them.
class HotKeys {
 public:
  explicit HotKeys(const MixOptions& options) : options_(options) {}
  std::uint64_t generation(std::uint64_t operations) {
    return asked_.fetch_add(operations, std::memory_order_relaxed) /
           (std::uint64_t{options_.hot_keys} * options_.operations_a_key);
  }
  std::uint64_t generations() const {
    return asked_.load() / (std::uint64_t{options_.hot_keys} * options_.operations_a_key) + 1;
  }
  // The group of hot keys that are scanned together.
  static std::string group(std::uint64_t generation) { return "h" + std::to_string(generation) + "."; }
  static std::string name(std::uint64_t generation, std::uint64_t i) { return group(generation) + std::to_string(i); }

 private:
  const MixOptions& options_;
  std::atomic<std::uint64_t> asked_{0};
};

class Mix {
 public:
  Mix(const MixOptions& options, HotKeys& hot, std::uint32_t client)
      : options_(options),
        hot_(hot),
        client_(client),
        random_(options.seed * 1'000'003 + client),
        details_(options.seed * 1'000'033 + client) {}

  std::vector<Operation> burst();
  // Of `count` keys of a group.
  static Operation scan_of(std::uint64_t generation, std::uint64_t first, std::uint64_t count, bool reverse,
                           std::uint32_t limit);
  // Remembers what later operations need of the answers.
  void take(const std::vector<Operation>& answered);
  std::uint64_t random() { return random_(); }
  // Names of this client's ballast.
  std::vector<std::string> take_ballast() { return std::move(ballast_); }

 private:
  bool percent(std::uint32_t share) { return random_() % 100 < share; }
  void draw_hot(Operation& o, bool numbers);
  void draw_ballast(Operation& o);
  void draw_scan(Operation& o);
  void draw_value(Operation& o, bool number);
  std::uint32_t value_bytes();
  void draw_rewritten_value(Operation& o, bool number, std::uint64_t id);

  const MixOptions& options_;
  HotKeys& hot_;
  const std::uint32_t client_;
  std::mt19937_64 random_;
  std::mt19937_64 details_;  // of flags and long times: what is asked for does not depend on them
  std::uint64_t generation_ = 0, bursts_ = 0, values_ = 0;
  std::vector<std::string> ballast_;
  std::unordered_map<std::string, std::uint64_t> cas_;  // last seen
};

}  // namespace tandem::record
