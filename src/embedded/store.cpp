#include "tandem/store.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "base/thread_owned.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/sim/sim_device.hpp"
#include "embedded/session.hpp"
#include "lane/call_query.hpp"
#include "placement/prove_kernels.hpp"

namespace tandem {
namespace {

constexpr std::uint32_t threads_limit = 65536;  // of Options::threads_max

Preset preset_of(const Options& o) {
  const auto row = std::ranges::find(presets(), o.preset, &PresetRow::name);
  if (row == presets().end()) throw std::invalid_argument("unknown preset: " + o.preset);
  return row->preset;
}

std::vector<std::shared_ptr<Device>> devices_of(const Options& o) {
  std::vector<std::shared_ptr<Device>> devices;
  if (o.gpus == 0 || row_of(preset_of(o)).offload == Offload::never) return devices;
  if (!std::has_single_bit(o.gpus) || o.gpus > shards_max)
    throw std::invalid_argument("gpus: 1, 2, 4 or 8 share the keys");
  if (o.gpu != "cuda" && o.gpu != "sim") throw std::invalid_argument("gpu: cuda or sim");
  if (o.gpu == "cuda") {
    if (const DeviceCount found = cuda_device_count(); o.gpus > found.count) {
      const std::string there =
          found.count == 0 ? "no GPU was found: " + found.reason
                           : "there " + std::string(found.count == 1 ? "is " : "are ") + std::to_string(found.count);
      throw std::runtime_error("gpus: " + std::to_string(o.gpus) + (o.gpus == 1 ? " was" : " were") +
                               " asked for, but " + there);
    }
  }
  for (unsigned i = 0; i < o.gpus; ++i) {
    if (o.gpu == "sim") {
      devices.push_back(make_sim_device({.number = i}));
    } else {
      devices.push_back(make_cuda_device(i));
      prove_kernels(*devices.back());
    }
  }
  return devices;
}

// In the words of Options; the engine's own checks are of its options.
const Options& checked_options(const Options& o) {
  if (o.memory_bytes < std::uint64_t{4} << 20 || o.memory_bytes > memory_bytes_limit)
    throw std::invalid_argument("memory_bytes must be from 4 MiB to 128 GiB");
  if (o.threads_max == 0 || o.threads_max > threads_limit)
    throw std::invalid_argument("threads_max must be from 1 to " + std::to_string(threads_limit));
  return o;
}

// Without memory of the devices the host does everything.
std::unique_ptr<DeviceCalls> make_device_calls(Context& context, Engine& engine, Planner& planner, CallLane& lane) {
  if (!planner.uses_device() || !lane.takes_found()) return nullptr;
  try {
    auto calls = std::make_unique<DeviceCalls>(context, *engine.schedulers(), planner, lane);
    planner.join(engine.steering());
    return calls;
  } catch (const DeviceError&) {
    planner.leave_devices();
    return nullptr;
  }
}

}  // namespace

struct Store::Core {
  explicit Core(const Options& o)
      : engine({.memory_bytes = checked_options(o).memory_bytes,
                .item_bytes_max = o.item_bytes_max,
                .item_bytes_expected = o.item_bytes_expected,
                .contexts_max = o.threads_max,
                .evict = o.evict,
                .huge_pages = o.huge_pages,
                .hash_seed = o.hash_seed,
                .memory_file = o.memory_file,
                .index_kind = o.index.empty() ? row_of(preset_of(o)).index_kind : index_kind_named(o.index).code->kind,
                .ordered = o.ordered,
                .arrange = o.arrange,
                .devices = devices_of(o),
                .index_on_device = o.gpus != 0 && row_of(preset_of(o)).index_on_device(),
                .hot_memory_bytes = o.gpus != 0 ? row_of(preset_of(o)).hot_bytes(hot_bytes_default) : 0,
                .follows_load = o.plan.empty() && row_of(preset_of(o)).offload == Offload::when_sooner,
                .device_values = {.bytes = row_of(preset_of(o)).value_bytes(o.gpu_value_bytes, o.memory_bytes)}}),
        planner(o.plan.empty() ? Planner(preset_of(o), engine.schedulers(), engine.shared().placement)
                               : Planner(Plan::parse(o.plan), engine.schedulers(), engine.shared().placement)) {}
  ~Core() {
    owned.clear();
    if (engine.has_contexts()) {
      std::fputs("tandem: Store destroyed while a Session is open\n", stderr);
      std::abort();
    }
  }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  const std::uint64_t id = next_id.fetch_add(1, std::memory_order_relaxed);  // no other store's of the process
  Engine engine;
  const Planner planner;                        // for sessions that get memory of the devices
  std::mutex mutex;                             // guards the rest
  std::vector<std::unique_ptr<Session>> owned;  // threads' sessions; destroyed before the engine
  std::vector<Session*> idle;                   // of threads that have ended

 private:
  static inline std::atomic<std::uint64_t> next_id{1};
};

Session::Impl::Impl(Engine& e, const Planner& p)
    : engine(e),
      context(e.make_context()),
      planner(p),
      lane(*context),
      devices(make_device_calls(*context, engine, planner, lane)) {}

Session::Session(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

void Session::execute_erased(std::span<const Request> requests, ErasedVisitor visit, void* visitor) {
  impl_->execute(requests, visit, visitor);
}
void Session::get_batch_erased(std::span<const std::string_view> keys, KeyCheck check, ErasedVisitor visit,
                               void* visitor) {
  impl_->get(keys, check, visit, visitor);
}

Scanned Session::scan_erased(const KeyRange& range, std::size_t limit, ErasedItemVisitor visit, void* visitor) {
  return scan_copied(*impl_->context, impl_->scanned, range, limit, visit, visitor);
}

void Session::scan_batch_erased(std::span<RangeScan> scans, ErasedBatchVisitor visit, void* visitor) {
  scan_batch_copied(*impl_->context, impl_->scanned, scans, visit, visitor);
}
std::uint64_t Session::arrange() { return arrange_all(*impl_->context); }

Store::Store(const Options& options) : core_(std::make_shared<Core>(options)) {}
Store::~Store() = default;

Session Store::session() {
  try {
    return Session(std::make_unique<Session::Impl>(core_->engine, core_->planner));
  } catch (const EpochDomainFull&) {
    throw std::runtime_error("threads_max (" + std::to_string(core_->engine.options().contexts_max) +
                             ") threads use the store already");
  }
}

namespace {
// The store that the thread has used last, by Core::id, and its session.
struct LastUsed {
  std::uint64_t core_id = 0;
  Session* session = nullptr;
};
constinit thread_local LastUsed last_used;
}  // namespace

// A thread's sessions with the stores that it uses. Either the store or the thread may end first.
struct Store::Sessions {
  struct Entry {
    std::uint64_t core_id;
    std::weak_ptr<Core> core;
    Session* session;
  };
  std::vector<Entry> entries;
  ~Sessions() {
    last_used = {};  // a destructor that runs later may use the store
    for (const Entry& e : entries) {
      if (const auto core = e.core.lock()) {
        const std::lock_guard lock(core->mutex);
        core->idle.push_back(e.session);
      }
    }
  }
};

Session& Store::here() {
  if (LastUsed& last = last_used; TD_LIKELY(last.core_id == core_->id)) return *last.session;
  return find_session();
}

Session& Store::find_session() {
  Sessions& mine = ThreadOwned<Sessions>::mine();
  auto entry = std::ranges::find(mine.entries, core_->id, &Sessions::Entry::core_id);
  if (entry == mine.entries.end()) {
    std::erase_if(mine.entries, [](const Sessions::Entry& e) { return e.core.expired(); });
    mine.entries.push_back({core_->id, core_, &take_session()});
    entry = mine.entries.end() - 1;
  }
  last_used = {core_->id, entry->session};
  return *entry->session;
}

Session& Store::take_session() {
  const std::lock_guard lock(core_->mutex);
  if (core_->idle.empty()) {
    core_->owned.push_back(std::make_unique<Session>(this->session()));
    core_->idle.push_back(core_->owned.back().get());
  }
  Session& session = *core_->idle.back();
  core_->idle.pop_back();
  return session;
}

void Store::for_each(const std::function<void(std::string_view key, const Reply& item)>& visit) {
  Session& session = here();
  Context& context = *session.impl_->context;
  Shared& shared = context.shared;
  for (PageId page = 1; page < shared.heap.page_end(); ++page) {
    context.epoch.enter();
    shared.heap.visit_page(page, [&](Location, const Item* item) {
      const ItemVersion seen = settled_version(item);
      if (!seen.is_live() || is_over(seen, shared.clock.now_s(), shared.flush_cas.load(std::memory_order_acquire))) {
        return;
      }
      Reply reply;
      char copied[lane::copied_bytes_max];
      char* copy = copied;
      lane::fill_hit(reply, item, seen.state, shared.heap.value_bytes(item), &copy);
      visit(item->key(), reply);
    });
    context.epoch.exit();
  }
}

void Store::clear() { core_->engine.flush_all(0); }

Stats Store::stats() const {
  const EngineStats s = core_->engine.stats();
  return {.items = s.items,
          .item_bytes = s.item_bytes,
          .memory_used_bytes = s.memory_used_bytes,
          .memory_limit_bytes = s.memory_limit_bytes,
          .index_bytes = s.index_bytes,
          .gets = s.counters.cmd_get,
          .hits = s.counters.get_hits,
          .misses = s.counters.get_misses,
          .stores = s.counters.total_items,
          .evictions = s.counters.evictions,
          .expired = s.counters.reclaimed,
          .gpu_searches = core_->engine.tasks_ran().of(Task::search, Processor::device)};
}

}  // namespace tandem
