// The store as one object: owns memory, heap, index, clock and the maintenance thread, and hands out Contexts. The embedded API
// (include/tandem/store.hpp) and the server are both built on it.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "task/context.hpp"

namespace tandem {

struct EngineOptions {
  std::uint64_t memory_bytes = std::uint64_t{64} << 20;   // heap and index together (memcached -m)
  std::uint64_t item_bytes_max = std::uint64_t{1} << 20;  // memcached -I
  double growth_factor = 1.25;                            // memcached -f
  std::uint32_t slot_bytes_min = granule_bytes;           // memcached -n
  std::uint32_t item_bytes_expected = 256;                // sizes the first index table; it grows by itself
  std::uint32_t contexts_max = 256;                       // threads that may use the store together
  bool evict = true, cas = true, huge_pages = true;
  std::uint64_t hash_seed = 0;  // 0: random
};

struct EngineStats {
  StoreTotals counters;  // summed over all contexts, past ones too
  std::uint64_t items, item_bytes, memory_limit_bytes, memory_used_bytes, index_bytes, index_cells, retired_bytes, growths;
  std::vector<ClassStats> classes;
};

class Engine {
 public:
  explicit Engine(const EngineOptions& options);  // throws std::invalid_argument, std::system_error, std::bad_alloc
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Shared& shared() noexcept { return *shared_; }
  const EngineOptions& options() const noexcept { return options_; }

  // A new context; throws std::runtime_error past contexts_max. Its counters stay part of stats() after it has gone.
  std::unique_ptr<Context, std::function<void(Context*)>> make_context();

  // Makes every item that is in the store when `at_s` (a second of the store's clock) comes invalid; at_s <= now: at once, before it returns.
  void flush_all(std::uint32_t at_s) noexcept;

  // Large values: a slot to receive into while no batch holds it. no_location: out of memory (after trying to evict). The slot is `filling` and owned
  // by the caller until it becomes a store query with option prefilled, or abandon_fill().
  Location begin_fill(Context& context, std::string_view key, std::uint32_t client_flags, std::uint64_t value_bytes, std::uint32_t expiry_s,
                      bool binary_key) noexcept;
  void abandon_fill(Context& context, Location l) noexcept;

  EngineStats stats() const;
  void reset_stats() noexcept;

 private:
  EngineOptions options_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace tandem
