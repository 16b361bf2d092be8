#include "engine/engine.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <random>
#include <stdexcept>

#include "engine/hot_keys.hpp"
#include "engine/index_share.hpp"
#include "engine/on_device.hpp"
#include "pipeline/device_search.hpp"
#include "pipeline/runner.hpp"
#include "task/memory.hpp"
#include "task/page_moves.hpp"

namespace tandem {
namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

// Whether small items of scanned ranges are rewritten in the background.
bool arranges(const EngineOptions& o) {
  return o.arrange && (o.ordered || index_kind_named(o.index_kind).is_always_ordered);
}

// Number of epoch participants: each context, its batches on devices, and the engine's own.
std::uint32_t epochs_for(const EngineOptions& o) {
  // Of maintenance and crawler, the arranger, and the router.
  const std::uint32_t own = 2 + (arranges(o) ? 1u : 0u) + (o.hot_memory_bytes != 0 ? 1u : 0u);
  constexpr std::uint32_t of_each_device = 2;  // of its replica and its round trips
  const std::uint32_t searches = o.devices.empty() ? 0 : Runner::flights_default + (o.index_on_device ? 1 : 0);
  return (o.contexts_max + own) * (1 + searches) + of_each_device * static_cast<std::uint32_t>(o.devices.size());
}

IndexOptions index_options(const EngineOptions& o, const IndexKindRow& kind, ReplicaLog* log) {
  const std::uint64_t items_expected = o.memory_bytes / std::max<std::uint32_t>(o.item_bytes_expected, granule_bytes);
  // A quarter of the limit at most, so that the first growth always fits.
  const std::uint64_t cells_max = o.memory_bytes / 4 / kind.cell_bytes;
  IndexOptions index;
  std::uint64_t cells = o.index_power != 0 ? std::uint64_t{1} << o.index_power : items_expected;
  if (kind.fixed_entry_bytes != 0) {
    // Sets fill unevenly: with a quarter of the entries to spare it is the memory limit that evicts. No second table
    // will need room beside this one, so it may take a third of the limit.
    if (o.index_power == 0) cells = cells / 3 * 4;
    index.cells_initial = std::max<std::uint64_t>(64, std::min(cells, o.memory_bytes / 3 / kind.fixed_entry_bytes));
  } else {
    index.cells_initial = std::bit_floor(std::max<std::uint64_t>(64, std::min(cells, cells_max)));
  }
  index.hash_seed = o.hash_seed;
  index.huge_pages = o.huge_pages;
  index.ordered = o.ordered;
  index.tree = o.tree;
  index.log = o.index_on_device ? nullptr : log;
  index.shard_bits = shard_bits_of(o);
  return index;
}

EngineOptions checked(EngineOptions o) {
  if (o.memory_bytes < 4 * page_bytes || o.memory_bytes > memory_bytes_limit)
    throw std::invalid_argument("the memory limit must be from 4 MiB to 128 GiB");
  if (o.item_bytes_max < 1024 || o.item_bytes_max > std::uint64_t{1} << 30)
    throw std::invalid_argument("the largest item must be between 1 KiB and 1 GiB");
  if (o.item_bytes_max > o.memory_bytes / 2)
    throw std::invalid_argument("the largest item must not exceed half of the memory limit");
  if (o.eviction != "clock" && o.eviction != "s3-fifo") throw std::invalid_argument("eviction is by clock or s3-fifo");
  if (o.scans_per_look == 0) throw std::invalid_argument("scans_per_look must be at least 1");
  if (o.contexts_max == 0) throw std::invalid_argument("contexts_max must be at least 1");
  if (!o.devices.empty() && (!std::has_single_bit(o.devices.size()) || o.devices.size() > shards_max))
    throw std::invalid_argument("there must be 1, 2, 4 or 8 devices, or none");
  if (o.ordered && o.index_on_device)
    throw std::invalid_argument("an index in device memory cannot be ordered: the host has no table to keep in order");
  if (o.ordered && !index_kind_named(o.index_kind).can_be_ordered)
    throw std::invalid_argument("an index of kind " + std::string(o.index_kind) + " cannot be ordered");
  if (std::ranges::any_of(o.devices, [](const auto& device) { return device == nullptr; }))
    throw std::invalid_argument("a device is missing");
  const std::uint32_t devices_max = index_kind_named(o.index_kind).devices_max;
  if (!o.devices.empty() && devices_max == 0)
    throw std::invalid_argument("devices cannot follow an index of kind " + std::string(o.index_kind));
  if (o.devices.size() > devices_max)
    throw std::invalid_argument("an index of kind " + std::string(o.index_kind) + " has " +
                                std::to_string(devices_max) + " device at most");
  if (o.index_on_device && !o.devices.empty() && o.index_kind != OffloadIndex::kind)
    throw std::invalid_argument("an index of kind " + std::string(o.index_kind) + " cannot be in device memory alone");
  if (o.hot_memory_bytes != 0 && o.hot_memory_bytes < HotTable::bytes_min)
    throw std::invalid_argument("the memory for hot keys must be 0 or at least 4 KiB");
  return o;
}

EngineOptions with_seed(EngineOptions o) {
  if (o.hash_seed == 0) o.hash_seed = random_seed();
  return o;
}

}  // namespace

Engine::Engine(const EngineOptions& options)
    : options_(with_seed(checked(options))),
      kind_(index_kind_named(options_.index_kind)),
      budget_(options_.memory_bytes),
      epochs_(epochs_for(options_)),
      clock_(options_.time != nullptr ? *options_.time : TimeSource::of_the_system()) {
  open_heap_and_index();
  placement_.emplace(*index_, *heap_);
  shared_ = std::unique_ptr<Shared>(
      new Shared{.heap = *heap_,
                 .index = *index_,
                 .code = *kind_.code,
                 .placement = *placement_,
                 .epochs = epochs_,
                 .clock = clock_,
                 .policy = {.evict = options_.evict, .cas = options_.cas, .item_bytes_max = options_.item_bytes_max},
                 .hash_seed = options_.hash_seed,
                 .dirty = dirty_map_ ? &*dirty_map_ : nullptr});
  if (has_copies(options_)) shared_->rewrites = Rewrites::announced;
  shared_->cas_next.store(cas_first_, std::memory_order_relaxed);
  shared_->flush_cas.store(flush_cas_first_, std::memory_order_relaxed);
  if (file_) {
    shared_->saved = &file_->saved();
    clock_.tick();  // recovery may have taken seconds
    save_clock();
  }
  evictions_seen_.assign(heap_->class_count() + 1, 0);
  open_devices();
  learn_hot_keys();
  maintenance_context_ = make_context();
  crawler_context_ = make_context();
  crawler_.emplace(*crawler_context_, CrawlerOptions{.enabled = options_.crawl,
                                                     .sleep_us = options_.crawl_sleep_us,
                                                     .items_per_run = options_.crawl_items_per_run});
  if (arranges(options_)) {
    shared_->scattered = &scattered_.emplace(options_.scans_per_look);
    arranger_context_ = make_context();
    arranger_.emplace(*arranger_context_, *scattered_);
  }
  maintenance_thread_ = std::thread([this] { maintenance_loop(); });
}

Engine::~Engine() {
  stop_maintenance();
  schedulers_.reset();
  for (const auto& on : on_devices_) on->scheduler->request_stop();
  on_devices_.clear();
  save_in_order();
  shared_.reset();
  index_.reset();
  placement_.reset();
  heap_.reset();
  if (file_) file_->close_in_order();
}

bool Engine::close(std::chrono::milliseconds limit) noexcept {
  stop_maintenance();
  const auto end = std::chrono::steady_clock::now() + limit;
  bool all_stopped = true;
  for (const auto& on : on_devices_) on->scheduler->request_stop();
  for (const auto& on : on_devices_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    all_stopped &= on->scheduler->stop(std::max(left, std::chrono::milliseconds(1)));
  }
  if (all_stopped) return true;
  save_in_order();
  if (file_) file_->close_in_order();
  return false;
}

void Engine::stop_maintenance() noexcept {
  if (!maintenance_thread_.joinable()) return;
  stopping_.store(true, std::memory_order_relaxed);
  shared_->maintenance.notify();
  maintenance_thread_.join();
  crawler_.reset();
  crawler_context_.reset();
  arranger_.reset();
  arranger_context_.reset();
  maintenance_context_.reset();
  hot_keys_.reset();
}

void Engine::open_heap_and_index() {
  HeapOptions heap{.growth_factor = options_.growth_factor,
                   .slot_bytes_min = options_.slot_bytes_min,
                   .item_bytes_max = options_.item_bytes_max,
                   .huge_pages = options_.huge_pages,
                   .probation = options_.eviction == "s3-fifo"};
  if (!options_.memory_file.empty()) {
    file_.emplace(options_.memory_file,
                  SizeClasses(options_.growth_factor, options_.slot_bytes_min, options_.item_bytes_max));
    heap.file = &*file_;
    if (options_.log && !file_->notice().empty()) {
      options_.log("memory file " + file_->path() + " " + file_->notice() + "; starting empty");
    }
  }
  heap_.emplace(heap, budget_, epochs_);
  if (may_rest(options_)) dirty_map_.emplace(*heap_, options_.device_values.bytes, budget_);
  if (!options_.devices.empty() && !options_.index_on_device)
    replica_log_.emplace(log_options(options_, dirty_map_ ? &*dirty_map_ : nullptr));
  if (file_ && kind_.fixed_entry_bytes != 0) keep_seed();
  if (!file_ || !file_->has_items()) {
    index_ =
        kind_.make(index_options(options_, kind_, replica_log_ ? &*replica_log_ : nullptr), budget_, epochs_, *heap_);
    return;
  }
  const HeapRecovery::Rules rules = resume();
  restart_ =
      recover(*heap_, index_, index_options(options_, kind_, replica_log_ ? &*replica_log_ : nullptr), budget_, epochs_,
              {.kind = &kind_, .rules = rules, .threads = options_.recover_threads, .log = options_.log});
  restart_->was_killed = file_->previous_end() == MemoryFile::PreviousEnd::killed;
  if (options_.log) options_.log("memory file " + file_->path() + ": " + describe(*restart_));
}

void Engine::flush_all(std::uint32_t at_s) noexcept {
  const std::lock_guard lock(flush_mutex_);
  if (at_s <= clock_.now_s()) {
    flush_due_s_.store(0, std::memory_order_relaxed);
    flush_now();
  } else {
    flush_number_ = (flush_number_ + 1) & saved::FlushNumber::limit;
    if (shared_->saved != nullptr) {
      shared_->saved->flush_due.store(saved::DueS::put(flush_number_, at_s), std::memory_order_relaxed);
    }
    flush_due_s_.store(at_s, std::memory_order_relaxed);
  }
}

// Every CAS id issued so far is smaller than the new mark. From now on CasIds::next() returns none below it, and none
// above it to a thread that has not observed it.
void Engine::flush_now() noexcept {
  shared_->flush_begins.store(true, std::memory_order_seq_cst);
  const std::uint64_t mark = shared_->take_cas_ids(1);
  // First in the file, in one store that also clears the pending flush: once a client has missed an item, no later
  // process finds it again.
  if (shared_->saved != nullptr) {
    shared_->saved->flush.store(saved::FlushCas::put(flush_number_, mark), std::memory_order_release);
  }
  shared_->flush_cas.store(mark, std::memory_order_release);
  shared_->flush_begins.store(false, std::memory_order_release);
  crawler_->hurry();
}

void Engine::apply_due_flush() noexcept {
  const std::lock_guard lock(flush_mutex_);
  const std::uint32_t due_s = flush_due_s_.load(std::memory_order_relaxed);
  if (due_s == 0 || clock_.now_s() < due_s) return;
  flush_due_s_.store(0, std::memory_order_relaxed);
  flush_now();
}

Location Engine::begin_fill(Context& context, std::string_view key, std::uint32_t client_flags,
                            std::uint64_t value_bytes, std::uint32_t expiry_s, bool binary_key) noexcept {
  const std::uint64_t item_bytes = Item::total_bytes(client_flags, key.size(), value_bytes);
  if (item_bytes > options_.item_bytes_max) return no_location;
  const Location l = task::allocate(context, item_bytes, true);
  if (l != no_location) heap_->format(l, key, client_flags, value_bytes, expiry_s, clock_.now_s(), binary_key);
  return l;
}

void Engine::abandon_fill(Context& context, Location l) noexcept {
  const Heap::Cache::Lock lock(context.cache);
  heap_->release(context.cache, l);
}

StoreTotals Engine::counters() const {
  const std::lock_guard lock(contexts_mutex_);
  StoreTotals totals = gone_counters_;
  for (const Context* c : contexts_) totals.add(c->counters);
  totals.subtract(reset_base_);
  return totals;
}

std::vector<ClassTotals> Engine::class_commands() const {
  const std::lock_guard lock(contexts_mutex_);
  std::vector<ClassTotals> totals(gone_class_counters_.begin(), gone_class_counters_.begin() + heap_->class_count());
  for (std::size_t c = 0; c < totals.size(); ++c) {
    for (const Context* context : contexts_) totals[c].add(context->classes[c]);
    totals[c].subtract(class_reset_base_[c]);
  }
  return totals;
}

EngineStats Engine::stats() const {
  EngineStats s;
  s.class_commands = class_commands();
  s.counters = counters();
  s.items = index_->item_count();
  s.memory_limit_bytes = budget_.limit_bytes();
  s.memory_used_bytes = budget_.used_bytes();
  s.index_bytes = index_->table_bytes();
  s.index_cells = index_->cell_count();
  s.retired_bytes = heap_->retired_bytes();
  s.index_growths = index_growths_.load(std::memory_order_relaxed);
  s.index_rebuild_ms = index_rebuild_ms_.load(std::memory_order_relaxed);
  s.pages_moved = pages_moved_.load(std::memory_order_relaxed);
  s.maintenance_turns = maintenance_turns_.load(std::memory_order_relaxed);
  s.pages_idle = heap_->pages_idle();
  s.file_refusals = heap_->file_refusals();
  s.has_file = file_.has_value();
  s.is_file_failed = is_file_failed_.load(std::memory_order_relaxed);
  s.is_moving_pages = heap_->is_moving_pages();
  s.huge_items = heap_->huge_items();
  s.item_bytes = heap_->huge_bytes();
  for (std::uint32_t c = 0; c < heap_->class_count(); ++c) {
    s.classes.push_back(heap_->class_stats(static_cast<SizeClass>(c)));
    s.item_bytes += s.classes.back().slots_used * s.classes.back().slot_bytes;
  }
  leave_out_displaced(s);
  return s;
}

Engine::Reassign Engine::reassign(int from, int to) noexcept {
  constexpr std::uint32_t asked = std::uint32_t{1} << 31;
  if (!options_.reassign) return Reassign::disabled;
  if (reassign_.load(std::memory_order_relaxed) != 0) return Reassign::busy;
  if (from == to) return Reassign::same;
  const auto classes = static_cast<int>(heap_->class_count());
  if (from == -1) {
    std::uint64_t most_pages = 1;
    for (int c = 1; c <= classes; ++c) {
      const std::uint64_t pages = c == to ? 0 : heap_->class_stats(static_cast<SizeClass>(c - 1)).pages;
      if (pages > most_pages) {
        most_pages = pages;
        from = c;
      }
    }
  }
  if (from < 0 || from > classes || to < 0 || to > classes) return Reassign::bad_class;
  if (from == 0 || heap_->class_stats(static_cast<SizeClass>(from - 1)).pages < 2) return Reassign::no_spare;
  std::uint32_t none = 0;
  const std::uint32_t request = asked | static_cast<std::uint32_t>(from) << 16 | static_cast<std::uint32_t>(to);
  if (!reassign_.compare_exchange_strong(none, request, std::memory_order_relaxed)) return Reassign::busy;
  shared_->maintenance.notify();
  return Reassign::ok;
}

void Engine::apply_reassign() {
  const std::uint32_t request = reassign_.load(std::memory_order_relaxed);
  if (request == 0) return;
  const auto from = static_cast<SizeClass>((request >> 16 & 0xff) - 1);
  const std::uint32_t to = request & 0xffff;
  if (task::move_page(*maintenance_context_, from, to == 0 ? huge_class : static_cast<SizeClass>(to - 1)))
    pages_moved_.fetch_add(1, std::memory_order_relaxed);
  reassign_.store(0, std::memory_order_relaxed);
}

bool Engine::set_memory_limit(std::uint64_t bytes) noexcept {
  // The index never shrinks, and items need the other half.
  const std::uint64_t bytes_min = std::max<std::uint64_t>(
      {4 * page_bytes, 2 * options_.item_bytes_max,
       static_cast<std::uint64_t>(static_cast<double>(index_->table_bytes() + placement_->bytes()) / index_share_max)});
  if (bytes < bytes_min || bytes > heap_->reserved_bytes()) return false;
  if (!options_.evict && bytes < budget_.used_bytes()) return false;
  budget_.set_limit(bytes);
  // A growth that was refused for lack of memory may fit now.
  shared_->growth_refused.store(false, std::memory_order_relaxed);
  shared_->maintenance.notify();
  return true;
}

// After the limit was lowered: returns pages and huge items until the used memory fits.
void Engine::shrink() {
  constexpr int pages_per_turn = 32;
  if (budget_.overdrawn()) {
    // Large items that were replaced may still wait in workers' caches.
    epochs_.synchronize();
    heap_->reclaim_caches();
  }
  for (int i = 0; i < pages_per_turn && budget_.overdrawn() && !stopping_.load(std::memory_order_relaxed); ++i) {
    if (!options_.evict || task::move_page(*maintenance_context_, huge_class, Heap::DonorRule::any) == 0) return;
  }
}

void Engine::set_observer(Observer* observer) {
  const std::lock_guard lock(maintain_mutex_);
  maintenance_context_->observer = observer;
}

std::array<TaskCost, task_count> Engine::task_costs() const {
  const std::lock_guard lock(contexts_mutex_);
  auto costs = gone_costs_;
  for (const Context* c : contexts_) {
    for (std::size_t t = 0; t < task_count; ++t) {
      costs[t].cycles += c->tasks.cycles[t].get();
      costs[t].queries += c->tasks.queries[t].get();
    }
  }
  return costs;
}

TaskTotals Engine::task_latencies() const {
  const std::lock_guard lock(contexts_mutex_);
  TaskTotals totals = gone_latencies_;
  for (const Context* c : contexts_) {
    for (std::size_t t = 0; t < task_count; ++t) totals[t].add(c->tasks.cycles_per_query[t]);
  }
  return totals;
}

TasksRan Engine::tasks_ran() const {
  const std::lock_guard lock(contexts_mutex_);
  TasksRan ran = gone_ran_;
  for (const Context* c : contexts_) ran.add(c->tasks);
  return ran;
}

void Engine::reset_stats() noexcept {
  const std::lock_guard lock(contexts_mutex_);
  reset_base_ = gone_counters_;
  class_reset_base_ = gone_class_counters_;
  for (const Context* context : contexts_) {
    reset_base_.add(context->counters);
    for (std::size_t c = 0; c < class_reset_base_.size(); ++c) class_reset_base_[c].add(context->classes[c]);
  }
}

}  // namespace tandem
