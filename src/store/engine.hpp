// The store as one object: owns memory, heap, index, clock and the maintenance thread, and hands out Contexts. The
// embedded API (include/tandem/store.hpp) and the server are both built on it.
//
// Thread safety: all members from any thread, except that a Context belongs to one thread at a time.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "heap/memory_file.hpp"
#include "observe/latency.hpp"
#include "pipeline/schedulers.hpp"
#include "placement/mirrored/replica.hpp"
#include "planner/planner.hpp"
#include "store/crawler.hpp"
#include "store/index_kinds.hpp"
#include "store/recover.hpp"
#include "task/context.hpp"

namespace tandem {

// Of EngineOptions::memory_bytes: an item's place has 32 bits, in granules.
inline constexpr std::uint64_t memory_bytes_limit = std::uint64_t{128} << 30;

struct EngineOptions {
  std::uint64_t memory_bytes = std::uint64_t{64} << 20;   // heap and index together (memcached -m)
  std::uint64_t item_bytes_max = std::uint64_t{1} << 20;  // memcached -I: header, key and value
  double growth_factor = 1.25;                            // memcached -f
  std::uint32_t slot_bytes_min = granule_bytes;           // memcached -n
  std::uint32_t item_bytes_expected = 256;                // sizes the first index table; it grows by itself
  std::uint32_t contexts_max = 256;                       // threads that may use the store together
  bool evict = true, cas = true, huge_pages = true;
  std::string eviction = "clock";         // or "s3-fifo": what goes when memory is full
  bool crawl = true;                      // give back what has expired in the background (memcached -o lru_crawler)
  std::uint32_t crawl_sleep_us = 100;     // of a run that was asked for
  std::uint32_t crawl_items_per_run = 0;  // 0: all
  std::uint64_t hash_seed = 0;            // 0: random
  std::string memory_file = {};  // memcached -e: items lie in this file and outlive the process; empty: in memory alone
  unsigned recover_threads = 0;  // that read the file at start; 0: one for each processor, at most 16
  // What the index is (index_kinds.hpp): with another one than "cuckoo" there are no devices.
  std::string_view index_kind = "cuckoo";
  // Each holds a replica of the index, or of its shard if there are several, and searches it (placement `mirrored`);
  // none: the host does everything. Whatever becomes of them, the store goes on. A power of two, at most shards_max.
  std::vector<std::shared_ptr<Device>> devices = {};
  // The index lies in the devices' memory and nowhere else (placement `device`), if they have room for it and no
  // replica of it elsewhere; a lost device brings it back. Changes go there every so many scheduling cycles.
  bool index_on_device = false;
  std::uint32_t change_cycles = 2;
  SchedulerOptions scheduler{};
  ReplicaImagesOptions device_values{};  // small items that lie in each device's memory, too
  // Told what becomes of the file: by the constructor, and by a thread of the engine if it cannot be written.
  std::function<void(std::string_view)> log = nullptr;
  const TimeSource* time = nullptr;  // outlives the engine; nullptr: the system's clocks
};

struct EngineStats {
  StoreTotals counters{};  // summed over all contexts, past ones too, since reset_stats()
  std::uint64_t items = 0, item_bytes = 0, memory_limit_bytes = 0, memory_used_bytes = 0, index_bytes = 0,
                index_cells = 0, retired_bytes = 0;
  std::uint64_t index_growths = 0, huge_items = 0, pages_moved = 0;
  std::uint64_t index_rebuild_ms = 0;  // how long it took to bring the index back from a lost device; 0: it was not
  std::vector<ClassStats> classes;
};

// A device, what it did since the start, and its replica.
struct DeviceStats {
  std::string name, backend, lost_reason;
  std::uint32_t number = 0;  // as `tandem devices` lists it
  std::uint64_t memory_bytes = 0;
  bool serves = false;
  std::uint32_t queries_min = 0;
  RoundTrip::Costs costs;
  std::uint64_t launches = 0, batches = 0, searched_batches = 0, queries = 0, refused_batches = 0, failed_batches = 0,
                device_ns = 0, cycle_ns = 0;
  std::optional<std::uint32_t> power_mw;
  ReplicaStats replica;
  bool has_index = false;  // no replica: the index itself
  std::uint64_t cells = 0, resident = 0;
};

// One task's cost, from the sampled batches of all contexts.
struct TaskCost {
  std::uint64_t cycles = 0, queries = 0;
};

class Engine {
 public:
  // Throws std::invalid_argument on bad options, std::system_error or std::bad_alloc when memory cannot be had,
  // MemoryFileError when the file cannot. Returns when all items of the file can be read.
  explicit Engine(const EngineOptions& options);
  // REQUIRES: all contexts are gone. Closes the memory file in order. Waits for the device's driver to return from what
  // it is in, if need be for ever.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The destructor's work, for who can end the process instead of waiting. False: the device's driver does not return.
  // The memory file is closed in order; nothing else may be called any more, not even the destructor.
  // REQUIRES: all contexts are gone.
  [[nodiscard]] bool close(std::chrono::milliseconds limit) noexcept;

  Shared& shared() noexcept { return *shared_; }
  const Shared& shared() const noexcept { return *shared_; }
  const EngineOptions& options() const noexcept { return options_; }

  // A new context; throws EpochDomainFull past contexts_max, DeviceError when a device has no memory for it. Its
  // counters stay part of stats() after it has gone.
  struct ContextDeleter {
    Engine* engine;
    void operator()(Context* context) const noexcept { engine->retire_context(context); }
  };
  using ContextPtr = std::unique_ptr<Context, ContextDeleter>;
  ContextPtr make_context();

  bool has_contexts() const;  // beside its own

  // Makes every item that is in the store when second `at_s` of the store's clock comes invalid; at_s <= now: at once,
  // before it returns. A later call replaces one that has not come yet, as in memcached.
  void flush_all(std::uint32_t at_s) noexcept;

  // Large values: a slot to receive into while no batch holds it. no_location: out of memory (after trying to evict).
  // The slot is `filling` and owned by the caller until it becomes a store query with option prefilled, or
  // abandon_fill(). REQUIRES: the context is in no epoch.
  Location begin_fill(Context& context, std::string_view key, std::uint32_t client_flags, std::uint64_t value_bytes,
                      std::uint32_t expiry_s, bool binary_key) noexcept;
  void abandon_fill(Context& context, Location l) noexcept;

  // Of the devices; nullptr: there is none, or not all of them can be used.
  const Schedulers* schedulers() const noexcept { return schedulers_ ? &*schedulers_ : nullptr; }
  // Which plans are feasible now: a lost device leaves `host`.
  Placement placement() const noexcept {
    const bool came_back = options_.index_on_device && !placement_->wants_search();
    return placement_of(came_back ? nullptr : schedulers(), *placement_);
  }
  // The scheduling cycle of all devices, from the next launch on.
  void set_cycle(std::chrono::microseconds cycle) noexcept;
  std::vector<DeviceStats> device_stats();  // one for each that is used

  Crawler& crawler() noexcept { return *crawler_; }
  const Crawler& crawler() const noexcept { return *crawler_; }

  EngineStats stats() const;
  std::array<TaskCost, task_count> task_costs() const;
  TaskTotals task_latencies() const;
  // Since the start.
  TasksRan tasks_ran() const;
  void reset_stats() noexcept;
  // What this engine took over from a file; nothing if there was nothing to take over, or nothing usable.
  const std::optional<RestartReport>& restart() const noexcept { return restart_; }

  // --- what an operator may ask for while the store runs; the maintenance thread does it in the background

  enum class Reassign : std::uint8_t { ok, busy, bad_class, no_spare, same, disabled };
  // One page of class `from` (-1: of the class that can best spare one), its items evicted, to class `to` (0: back to
  // the memory limit). Classes count from 1, as in `stats slabs`.
  Reassign reassign(int from, int to) noexcept;
  // Whether pages follow evictions by themselves. 0: they do not; 1: some in each turn; 2: as many as it takes.
  void set_automove(unsigned level) noexcept { automove_.store(level, std::memory_order_relaxed); }
  unsigned automove() const noexcept { return automove_.load(std::memory_order_relaxed); }
  // A larger limit holds at once; for a smaller one pages are given back, a number in each turn, and until enough are
  // back nobody gets a new one. False, and nothing changes: beyond the reserved address space, too small for the
  // largest item or for the index, or smaller than what is in use while nothing may be evicted.
  bool set_memory_limit(std::uint64_t bytes) noexcept;
  std::uint64_t memory_limit_bytes() const noexcept { return budget_.limit_bytes(); }
  // Who hears of the maintenance thread's evictions and moves; null: nobody. When it returns, the last one hears
  // nothing any more.
  void set_observer(Observer* observer);

  // Does now what the maintenance thread does at its next turn (tests).
  void maintain();

 private:
  void retire_context(Context* context) noexcept;
  void stop_maintenance() noexcept;
  void save_in_order() noexcept;
  void maintenance_loop();
  void grow_index();
  void balance_classes();
  void apply_reassign();
  void shrink();
  void apply_due_flush() noexcept;
  void flush_now() noexcept;
  void open_heap_and_index();
  void open_devices();
  void move_index_to_devices();
  void bring_index_back();
  void leave_out_displaced(EngineStats& stats) const;
  HeapRecovery::Rules resume();
  void save_clock() noexcept;
  void drop_unwritten() noexcept;

  EngineOptions options_;
  const IndexKindRow& kind_;
  MemoryBudget budget_;
  EpochDomain epochs_;
  Clock clock_;
  std::optional<MemoryFile> file_;
  std::optional<Heap> heap_;
  std::optional<ReplicaLog> replica_log_;
  std::unique_ptr<Index> index_;
  std::optional<IndexPlacement> placement_;
  struct OnDevice;
  std::vector<std::unique_ptr<OnDevice>> on_devices_;  // in the order of the shards
  std::optional<Schedulers> schedulers_;
  std::unique_ptr<Shared> shared_;

  mutable std::mutex contexts_mutex_;  // guards the next six
  std::vector<Context*> contexts_;
  StoreTotals gone_counters_{};  // of contexts that were given back
  StoreTotals reset_base_{};     // what stats() subtracts
  std::array<TaskCost, task_count> gone_costs_{};
  TaskTotals gone_latencies_{};
  TasksRan gone_ran_{};

  std::optional<RestartReport> restart_;
  std::uint64_t cas_first_ = 1, flush_cas_first_ = 0;  // what Shared begins with

  std::mutex flush_mutex_;
  std::atomic<std::uint32_t> flush_due_s_{0};  // 0: none
  std::uint64_t flush_number_ = 0;             // of the last one with a delay; guarded by flush_mutex_
  std::uint32_t unwritten_said_s_ = 0;         // when it was last said that the file cannot be written; 0: never

  std::atomic<std::uint64_t> index_growths_{0}, pages_moved_{0}, index_rebuild_ms_{0};
  std::atomic<unsigned> automove_{1};
  std::atomic<std::uint32_t> reassign_{0};     // a request: classes from << 16 | to, and bit 31; 0: none
  std::vector<std::uint64_t> evictions_seen_;  // by class, at the last balance
  std::mutex maintain_mutex_;
  ContextPtr maintenance_context_{nullptr, {this}};
  std::atomic<bool> stopping_{false};
  std::thread maintenance_thread_;
  ContextPtr crawler_context_{nullptr, {this}};
  std::optional<Crawler> crawler_;
};

}  // namespace tandem
