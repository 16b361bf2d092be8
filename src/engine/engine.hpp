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

#include "engine/arranger.hpp"
#include "engine/crawler.hpp"
#include "engine/index_kinds.hpp"
#include "engine/recover.hpp"
#include "heap/memory_file.hpp"
#include "observe/hot_latency.hpp"
#include "observe/latency.hpp"
#include "pipeline/schedulers.hpp"
#include "placement/mirrored/replica.hpp"
#include "planner/planner.hpp"
#include "router/router.hpp"
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
  std::uint32_t index_power = 0;                          // its cells, 2^n, as far as a quarter of memory_bytes
                                                          // goes (memcached -o hashpower); 0: by the expected items
  std::uint32_t contexts_max = 256;                       // threads that may use the store together
  bool evict = true, cas = true, huge_pages = true;
  std::string eviction = "clock";         // or "s3-fifo": the policy when memory is full
  bool reassign = true;                   // `slabs reassign`, and pages that follow the traffic (-o slab_reassign)
  bool crawl = true;                      // reclaim expired items in the background (memcached -o lru_crawler)
  std::uint32_t crawl_sleep_us = 100;     // of a requested run
  std::uint32_t crawl_items_per_run = 0;  // 0: all
  std::uint64_t hash_seed = 0;            // 0: random
  std::string memory_file = {};           // memcached -e: holds the items and outlives the process; empty: memory only
  unsigned recover_threads = 0;           // threads that read the file at start; 0: one for each processor, at most 16
  // The kind of index (index_kinds.hpp). Which of them devices follow: FollowedIndex.
  std::string_view index_kind = "cuckoo";
  bool ordered = false;  // keeps the keys in order, too, for scans
  bool arrange = true;   // rewrite small items of ranges that are scanned often next to each other, in the background
  std::uint32_t scans_per_look = ScatteredRanges::scans_per_look_default;  // tests have it look at each scan
  // Of the keys' order, or of index_kind hash_tree.
  TreeShape tree = {};
  // Each holds a replica of the index, or of its shard if there are several, and searches it (placement `mirrored`);
  // none: the host does everything. The store survives the loss of devices. A power of two, at most shards_max.
  std::vector<std::shared_ptr<Device>> devices = {};
  // Puts the index in device memory only (placement `device`), without a replica, if the devices have room for it. When
  // a device is lost, the index is rebuilt on the host. Changes are sent every `change_cycles` scheduling cycles.
  bool index_on_device = false;
  std::uint32_t change_cycles = 2;
  // For hot keys then, which the host answers; at least HotTable::bytes_min; 0: no key is hot.
  std::uint64_t hot_memory_bytes = 0;
  bool learns_hot_keys = true;  // false: Engine::set_hot_model() says which keys are hot
  RouterOptions router{};
  SchedulerOptions scheduler{};
  // The plan beside one device, and whether its replica rests, follow the load (Controller), unless
  // scheduler.queries_min is given.
  bool follows_load = false;
  ControllerOptions controller{};
  ReplicaImagesOptions device_values{};  // small items that are also kept in a device's memory, if it is the only one
  // Receive messages about file and devices: from the constructor, and from a thread of the engine if the file cannot
  // be written. warn: of what is lost or not used.
  std::function<void(std::string_view)> log = nullptr, warn = nullptr;
  const TimeSource* time = nullptr;  // outlives the engine; nullptr: the system's clocks
};

struct EngineStats {
  StoreTotals counters{};  // summed over all contexts, destroyed ones too, since reset_stats()
  std::uint64_t items = 0, item_bytes = 0, memory_limit_bytes = 0, memory_used_bytes = 0, index_bytes = 0,
                index_cells = 0, retired_bytes = 0;
  std::uint64_t index_growths = 0, huge_items = 0, pages_moved = 0;
  std::uint64_t maintenance_turns = 0, pages_idle = 0;
  bool is_moving_pages = false;
  std::uint64_t file_refusals = 0;                // times that there was no room for another page of the memory file
  bool has_file = false, is_file_failed = false;  // failed: something of it could not be written
  std::uint64_t index_rebuild_ms = 0;  // how long the index's rebuild took after a device was lost; 0: there was none
  std::vector<ClassStats> classes;
  std::vector<ClassTotals> class_commands;  // of each of them, counted as `counters`
};

// A device, its work since the start, and its replica.
struct DeviceStats {
  std::string name, backend, lost_reason;
  std::uint32_t number = 0;  // as `tandem devices` lists it
  std::uint64_t memory_bytes = 0;
  bool serves = false;
  std::uint32_t queries_min = 0;
  RoundTrip::Costs costs;
  std::uint64_t launches = 0, batches = 0, searched_batches = 0, queries = 0, refused_batches = 0, failed_batches = 0,
                device_ns = 0, cycle_ns = 0, rests = 0;
  std::optional<std::uint32_t> power_mw;
  ReplicaStats replica;
  bool has_index = false;  // it has the index itself, not a replica
  std::uint64_t cells = 0, resident = 0;
};

struct HotKeyStats {
  HotTableStats table;
  RouterStats router;
  HotLatencyTotals latency;
};

// One task's cost, from the sampled batches of all contexts.
struct TaskCost {
  std::uint64_t cycles = 0, queries = 0;
};

class Engine {
 public:
  // Throws std::invalid_argument on bad options, std::system_error or std::bad_alloc without memory, MemoryFileError
  // for an unusable file. Returns when all items of the file can be read.
  explicit Engine(const EngineOptions& options);
  // REQUIRES: all contexts are destroyed. Closes the memory file in order. Waits for pending calls of the device's
  // driver, if need be for ever.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The destructor's work, for a caller that can end the process instead of waiting. False: a call of the device's
  // driver does not return. The memory file is closed in order. After that no call is allowed, not even the destructor.
  // REQUIRES: all contexts are destroyed.
  [[nodiscard]] bool close(std::chrono::milliseconds limit) noexcept;

  Shared& shared() noexcept { return *shared_; }
  const Shared& shared() const noexcept { return *shared_; }
  const EngineOptions& options() const noexcept { return options_; }

  // A new context. Throws EpochDomainFull past contexts_max, DeviceError when a device has no memory for it. Its
  // counters stay part of stats() after its end.
  struct ContextDeleter {
    Engine* engine;
    void operator()(Context* context) const noexcept { engine->retire_context(context); }
  };
  using ContextPtr = std::unique_ptr<Context, ContextDeleter>;
  ContextPtr make_context();

  bool has_contexts() const;  // beside its own

  // Invalidates every item that is in the store when second `at_s` of the store's clock begins; at_s <= now: at once,
  // before it returns. A later call replaces a pending one, as in memcached.
  void flush_all(std::uint32_t at_s) noexcept;

  // Brings clock and a due flush up to now, for requests that were received before: the thread that executes them does
  // not depend on the maintenance thread, which may be late. ticks: cycles_now(). Any thread.
  TD_INLINE void keep_time(std::uint64_t ticks) noexcept {
    clock_.keep(ticks);
    if (const std::uint32_t due_s = flush_due_s_.load(std::memory_order_relaxed); TD_UNLIKELY(due_s != 0)) {
      if (due_s <= clock_.now_s()) apply_due_flush();
    }
  }

  // For large values: a slot to receive into before a batch holds it. no_location: out of memory (after trying to
  // evict). The slot is `filling` and owned by the caller until it becomes a store query with option prefilled, or
  // abandon_fill(). REQUIRES: the context is in no epoch.
  Location begin_fill(Context& context, std::string_view key, std::uint32_t client_flags, std::uint64_t value_bytes,
                      std::uint32_t expiry_s, bool binary_key) noexcept;
  void abandon_fill(Context& context, Location l) noexcept;

  // Of the devices; nullptr: there are none, or not all of them are usable.
  const Schedulers* schedulers() const noexcept { return schedulers_ ? &*schedulers_ : nullptr; }
  // Determines the feasible plans; after the loss of a device only `host` remains.
  Placement placement() const noexcept {
    const bool came_back = options_.index_on_device && !placement_->wants_search();
    return placement_of(came_back ? nullptr : schedulers(), *placement_);
  }
  // Sets the scheduling cycle of all devices, from the next launch on.
  void set_cycle(std::chrono::microseconds cycle) noexcept;
  // What chooses plans for planners that join it; nullptr: they have constant ones.
  Steering* steering() noexcept { return schedulers_ && steering_ ? &*steering_ : nullptr; }
  std::vector<DeviceStats> device_stats();  // one for each device in use

  // Hot keys, where devices alone have the index and memory was given to them; else nothing.
  std::optional<HotKeyStats> hot_key_stats() const;
  // The keys of the model are hot from now on, as far as there are cells: each from one of its next requests on. For
  // tests and benchmarks. False, and nothing has changed: the store learns them, has none, or there is no memory. One
  // call at a time.
  bool set_hot_model(std::unique_ptr<HotModel> model) noexcept;

  Crawler& crawler() noexcept { return *crawler_; }
  const Crawler& crawler() const noexcept { return *crawler_; }

  // Summed over all contexts, as in stats().
  StoreTotals counters() const;
  EngineStats stats() const;
  std::array<TaskCost, task_count> task_costs() const;
  TaskTotals task_latencies() const;
  // Since the start.
  TasksRan tasks_ran() const;
  void reset_stats() noexcept;
  // What was taken over from a file; nothing if there was no file, or no usable one.
  const std::optional<RestartReport>& restart() const noexcept { return restart_; }

  // --- an operator's requests at run time; the maintenance thread executes them in the background

  enum class Reassign : std::uint8_t { ok, busy, bad_class, no_spare, same, disabled };
  // Moves one page of class `from` (-1: of the class that can best spare one), after evicting its items, to class `to`
  // (0: back to the memory limit). Classes count from 1, as in `stats slabs`.
  Reassign reassign(int from, int to) noexcept;
  // Whether pages follow evictions automatically. 0: no; 1: some in each turn; 2: as many as needed.
  void set_automove(unsigned level) noexcept { automove_.store(level, std::memory_order_relaxed); }
  unsigned automove() const noexcept { return automove_.load(std::memory_order_relaxed); }
  // A larger limit applies at once. For a smaller one some pages are returned in each turn, and until enough are
  // returned no new page is given out. False, and nothing changes: beyond the reserved address space, too small for the
  // largest item or for the index, or smaller than the memory in use while eviction is off.
  bool set_memory_limit(std::uint64_t bytes) noexcept;
  std::uint64_t memory_limit_bytes() const noexcept { return budget_.limit_bytes(); }
  // Receives the maintenance thread's evictions and moves; null: none. After the call returns, the previous observer is
  // no longer called.
  void set_observer(Observer* observer);

  // Runs one turn of the maintenance thread now (tests).
  void maintain();

 private:
  void retire_context(Context* context) noexcept;
  std::vector<ClassTotals> class_commands() const;
  void stop_maintenance() noexcept;
  void save_in_order() noexcept;
  void maintenance_loop();
  bool free_pages(std::uint64_t bytes);
  void grow_index();
  void balance_classes();
  void apply_reassign();
  void shrink();
  void apply_due_flush() noexcept;
  void flush_now() noexcept;
  void open_heap_and_index();
  void keep_seed() noexcept;
  void open_devices();
  void move_index_to_devices();
  void bring_index_back();
  void learn_hot_keys();
  HotLatencyTotals hot_latencies() const;
  void leave_out_displaced(EngineStats& stats) const;
  HeapRecovery::Rules resume();
  void save_clock() noexcept;
  void drop_unwritten() noexcept;
  void say_no_room() noexcept;

  EngineOptions options_;
  const IndexKindRow& kind_;
  MemoryBudget budget_;
  EpochDomain epochs_;
  Clock clock_;
  std::optional<MemoryFile> file_;
  std::optional<Heap> heap_;
  std::optional<DirtyMap> dirty_map_;
  std::optional<ReplicaLog> replica_log_;
  std::unique_ptr<Index> index_;
  std::optional<IndexPlacement> placement_;
  std::unique_ptr<Shared> shared_;

  mutable std::mutex contexts_mutex_;  // guards the next eight
  std::vector<Context*> contexts_;
  StoreTotals gone_counters_{};  // of destroyed contexts
  StoreTotals reset_base_{};     // what stats() subtracts
  // The same of each size class.
  using AllClasses = std::array<ClassTotals, huge_class + 1>;
  AllClasses gone_class_counters_{}, class_reset_base_{};
  std::array<TaskCost, task_count> gone_costs_{};
  TaskTotals gone_latencies_{};
  TasksRan gone_ran_{};

  std::optional<Steering> steering_;
  // Behind all that their threads read.
  struct OnDevice;
  std::vector<std::unique_ptr<OnDevice>> on_devices_;  // in the order of the shards
  std::optional<Schedulers> schedulers_;
  struct HotKeys;
  std::unique_ptr<HotKeys> hot_keys_;  // nullptr: no key is hot

  std::optional<RestartReport> restart_;
  std::uint64_t cas_first_ = 1, flush_cas_first_ = 0;  // initial values of Shared

  std::mutex flush_mutex_;
  std::atomic<std::uint32_t> flush_due_s_{0};  // 0: none
  std::uint64_t flush_number_ = 0;             // of the last one with a delay; guarded by flush_mutex_
  std::uint32_t unwritten_said_s_ = 0;         // when the file's write error was last logged; 0: never
  std::atomic<bool> is_file_failed_{false};
  bool is_no_room_said_ = false;

  std::atomic<std::uint64_t> index_growths_{0}, pages_moved_{0}, index_rebuild_ms_{0}, maintenance_turns_{0};
  std::atomic<unsigned> automove_{1};
  std::atomic<std::uint32_t> reassign_{0};     // a request: classes from << 16 | to, and bit 31; 0: none
  std::vector<std::uint64_t> evictions_seen_;  // by class, at the last balance
  std::mutex maintain_mutex_;
  ContextPtr maintenance_context_{nullptr, {this}};
  std::atomic<bool> stopping_{false};
  std::thread maintenance_thread_;
  ContextPtr crawler_context_{nullptr, {this}};
  std::optional<Crawler> crawler_;
  std::optional<ScatteredRanges> scattered_;
  ContextPtr arranger_context_{nullptr, {this}};
  std::optional<Arranger> arranger_;
};

}  // namespace tandem
