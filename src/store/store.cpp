#include "tandem/store.hpp"

#include <algorithm>
#include <array>
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
#include "lane/calls.hpp"
#include "pipeline/runner.hpp"
#include "placement/prove_kernels.hpp"
#include "planner/planner.hpp"
#include "store/engine.hpp"
#include "store/scan_calls.hpp"

namespace tandem {
namespace {

constexpr std::uint32_t threads_limit = 65536;  // of Options::threads_max
constexpr std::uint32_t batch_queries = 64 * strip_queries_max;

Code code_of(Status status, std::uint8_t outcomes) noexcept {
  switch (status) {
    case Status::hit:
    case Status::number:
      return Code::hit;
    case Status::stored:
      return Code::stored;
    case Status::not_stored:
      return (outcomes & outcome::too_large) != 0 ? Code::too_large : Code::not_stored;
    case Status::exists:
      return Code::exists;
    case Status::removed:
      return Code::removed;
    case Status::not_a_number:
      return Code::not_a_number;
    case Status::too_large:
      return Code::too_large;
    case Status::out_of_memory:
      return Code::out_of_memory;
    case Status::none:
      return Code::bad_key;
    case Status::miss:
    case Status::not_found:
      break;
  }
  return Code::miss;
}

void fill_common(Query& q, std::string_view key, Opcode opcode) noexcept {
  q.key = key.data();
  q.value = nullptr;
  q.value_bytes = 0;
  q.key_bytes = static_cast<std::uint8_t>(key.size());
  q.opcode = opcode;
  q.options = 0;
}

bool good_key(std::string_view key) noexcept { return !key.empty() && key.size() <= key_bytes_max; }

std::uint16_t options_of(KeyCheck check) noexcept {
  return check == KeyCheck::caller ? option::caller_compares : std::uint16_t{0};
}

// A read, or opcode nothing for a key that no item can have. Sets only the fields that a read uses.
void fill_get(Query& q, std::string_view key, std::uint16_t options) noexcept {
  q.key = key.data();
  q.key_bytes = static_cast<std::uint8_t>(key.size());
  q.opcode = good_key(key) ? Opcode::get : Opcode::nothing;
  q.options = options;
}

void fill(Query& q, const Request& request, const Clock& clock) noexcept {
  if (!good_key(request.key)) {
    fill_common(q, request.key, Opcode::nothing);
    return;
  }
  const auto store = [&](StoreMode mode) {
    fill_common(q, request.key, Opcode::store);
    q.mode = mode;
    q.value = request.value.data();
    q.value_bytes = static_cast<std::uint32_t>(std::min<std::size_t>(request.value.size(), UINT32_MAX));
    q.client_flags = request.flags;
    q.expiry_s = clock.expiry_s(request.ttl_s);
  };
  const auto arithmetic = [&](std::uint16_t options) {
    fill_common(q, request.key, Opcode::arithmetic);
    q.options = options;
    q.delta = request.delta;
  };
  switch (request.action) {
    case Action::get:
      fill_common(q, request.key, Opcode::get);
      q.options = options_of(request.key_check);
      return;
    case Action::touch:
      fill_common(q, request.key, Opcode::touch);
      q.expiry_s = clock.expiry_s(request.ttl_s);
      return;
    case Action::set:
      return store(StoreMode::set);
    case Action::add:
      return store(StoreMode::add);
    case Action::replace:
      return store(StoreMode::replace);
    case Action::append:
      return store(StoreMode::append);
    case Action::prepend:
      return store(StoreMode::prepend);
    case Action::compare_and_set:
      store(StoreMode::set);
      q.options = option::compare_cas;
      q.cas = request.cas;
      return;
    case Action::exchange:
      store(StoreMode::set);
      q.options = option::returns_old;
      return;
    case Action::remove:
    case Action::compare_and_remove:
    case Action::take:
      fill_common(q, request.key, Opcode::remove);
      if (request.action == Action::compare_and_remove) q.options = option::compare_cas;
      if (request.action == Action::take) q.options = option::returns_old;
      q.cas = request.cas;
      return;
    case Action::increment:
      return arithmetic(0);
    case Action::decrement:
      return arithmetic(option::decrement);
  }
}

// Maximum total size of the keys and values that are copied for the visitor.
constexpr std::size_t copied_bytes_max = key_bytes_max + rewritten_value_bytes_max;

// Fills the reply for a hit. A set may rewrite a short value while the visitor reads it, so that is copied, with its
// key before it, to `*copy`, which is advanced past it. A longer one is stable for the batch's epoch.
TD_INLINE void fill_hit(Reply& reply, const Item* item, std::uint64_t found_state, std::uint64_t value_bytes,
                        char** copy) noexcept {
  const std::uint32_t key_bytes = item->key_bytes();
  const std::uint32_t key_at = item->key_offset();
  reply.code = Code::hit;
  reply.key_bytes = static_cast<std::uint8_t>(key_bytes);
  reply.flags = item->client_flags();
  reply.number = 0;
  if (TD_UNLIKELY(value_bytes > rewritten_value_bytes_max)) {
    reply.value = {item->bytes() + key_at + key_bytes, value_bytes};
    reply.cas = item->cas(found_state);
    return;
  }
  char* const to = *copy;
  const std::uint64_t bytes = key_bytes + value_bytes;
  copy_validated(item, found_state, [&](const ItemVersion& seen) noexcept {
    racing_copy(to, item->bytes() + key_at, bytes);
    reply.cas = seen.cas();
  });
  reply.value = {to + key_bytes, value_bytes};
  *copy = to + bytes;
}

// The same for the item that a write displaced, which is not rewritten any more.
void fill_displaced(Reply& reply, const Result& r) noexcept {
  if (reply.code == Code::stored) reply.code = Code::hit;
  reply.key_bytes = static_cast<std::uint8_t>(r.item->key_bytes());
  reply.value = {r.item->bytes() + r.value_offset, r.value_bytes};
  reply.flags = r.item->client_flags();
  reply.cas = r.item->cas(r.state);
}

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
                .replicas_rest = o.plan.empty() && row_of(preset_of(o)).offload == Offload::when_sooner,
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

  Engine engine;
  const Planner planner;                        // for sessions that get memory of the devices
  std::mutex mutex;                             // guards the rest
  std::vector<std::unique_ptr<Session>> owned;  // threads' sessions; destroyed before the engine
  std::vector<Session*> idle;                   // of threads that have ended
};

// WR of the embedded store: passes each result to the caller's visitor, inside the batch's epoch.
struct Session::Impl final : ResponseWriter {
  Impl(Engine& e, const Planner& p)
      : engine(e),
        context(e.make_context()),
        planner(p),
        runner(make_runner()),
        batch(&runner->filling()),
        lane(*context) {}

  // Without memory of the devices the host does everything.
  std::unique_ptr<Runner> make_runner() {
    if (planner.uses_device()) {
      try {
        return std::make_unique<Runner>(*context, engine.schedulers(), batch_queries);
      } catch (const DeviceError&) {
        planner.leave_devices();
      }
    }
    return std::make_unique<Runner>(*context, nullptr, batch_queries);
  }

  bool write(Batch& b, Strip strip) override {
    const Query* const queries = b.queries();
    const Result* const results = b.results();
    Reply* reply = replies.get();
    char* copy = copies.get();
    for (std::uint32_t i = strip.begin; i < strip.end; ++i, ++reply) {
      const Query& q = queries[i];
      const Result& r = results[i];
      if (TD_LIKELY(q.opcode == Opcode::get && r.status == Status::hit)) {
        fill_hit(*reply, r.item, r.state, r.value_bytes, &copy);
      } else {
        *reply = {};
        reply->code = code_of(r.status, r.outcome);
        switch (r.status) {
          case Status::stored:
            reply->cas = r.number;
            [[fallthrough]];
          case Status::removed:
            if (TD_UNLIKELY((r.outcome & outcome::displaced) != 0)) fill_displaced(*reply, r);
            break;
          case Status::number:
            reply->number = r.number;
            break;
          default:
            break;
        }
      }
    }
    visit(visitor, offset + strip.begin, {replies.get(), strip.size()});
    return true;
  }
  void control(Batch&, std::uint32_t) override {}

  // Answers by the lane what it takes of a call's requests from number `done` on; returns how far that is. What follows
  // takes the general path, up to end_of_batch().
  template <class From>
  std::size_t run_lane(std::span<const From> from, std::size_t done) noexcept {
    general_queries = batch_queries;
    if (done == from.size() || runner->has_devices() || !CallLane::takes(from[done]) || !lane.may_run()) return done;
    const std::size_t taken = lane.run(from.subspan(done), done, visit, visitor);
    // Where the lane seldom stops, it is soon back.
    constexpr std::size_t seldom = 64, few = 2 * strip_queries_max;
    if (taken >= seldom) general_queries = few;
    return done + taken;
  }
  std::size_t end_of_batch(std::size_t requests, std::size_t done) const noexcept {
    return std::min(requests, done + general_queries);
  }

  // The caller's next requests fill a batch from now on.
  void begin(ErasedVisitor visits, void* with) noexcept {
    visit = visits;
    visitor = with;
    filled = 0;
    general_queries = batch_queries;
  }
  // Called when the batch is full, or the caller has no more requests.
  void flush_batch() {
    if (TD_LIKELY(!runner->has_devices())) {
      offset = filled;
      filled += batch->size();
      runner->run(*batch, *this);
      batch->clear();
      return;
    }
    offsets[runner->next()] = filled;
    filled += batch->size();
    runner->submit(planner.plan_for(batch->size()));
    while (!runner->can_fill()) answer_oldest();
    batch = &runner->filling();
  }
  void answer_oldest() {
    offset = offsets[runner->oldest()];
    runner->answer_oldest(*this);
  }
  // Answers all remaining requests before the call returns.
  void finish() {
    if (batch->size() != 0) flush_batch();
    while (TD_UNLIKELY(runner->in_flight() != 0)) answer_oldest();
  }

  Engine& engine;
  Engine::ContextPtr context;
  ScanBuffers scanned;
  Planner planner;
  std::unique_ptr<Runner> runner;
  Batch* batch;  // being filled
  CallLane lane;
  ErasedVisitor visit = nullptr;
  void* visitor = nullptr;
  std::unique_ptr<Reply[]> replies{new Reply[strip_queries_max]};
  std::unique_ptr<char[]> copies{new char[strip_queries_max * copied_bytes_max]};
  // Index in the caller's array of a batch's first query: of that being answered, of those in flight, of the next.
  std::size_t offset = 0, filled = 0;
  std::size_t general_queries = batch_queries;  // of a batch behind what the lane took
  std::array<std::size_t, Runner::flights_default> offsets{};
};

Session::Session(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

void Session::execute_erased(std::span<const Request> requests, ErasedVisitor visit, void* visitor) {
  Impl& s = *impl_;
  s.begin(visit, visitor);
  const Clock& clock = s.engine.shared().clock;
  for (std::size_t done = 0; (done = s.run_lane(requests, done)) != requests.size();) {
    s.filled = done;
    for (const std::size_t end = s.end_of_batch(requests.size(), done); done != end; ++done) {
      fill(s.batch->next(), requests[done], clock);
      s.batch->commit();
    }
    s.flush_batch();
  }
  s.finish();
}

void Session::get_batch_erased(std::span<const std::string_view> keys, KeyCheck check, ErasedVisitor visit,
                               void* visitor) {
  Impl& s = *impl_;
  s.begin(visit, visitor);
  const std::uint16_t options = options_of(check);
  const auto take = [&](std::size_t done) { return check == KeyCheck::store ? s.run_lane(keys, done) : done; };
  for (std::size_t done = 0; (done = take(done)) != keys.size();) {
    const std::size_t count = s.end_of_batch(keys.size(), done) - done;
    Query* const queries = s.batch->queries();
    for (std::size_t i = 0; i < count; ++i) fill_get(queries[i], keys[done + i], options);
    s.batch->resize(static_cast<std::uint32_t>(count));
    s.filled = done;
    s.flush_batch();
    done += count;
  }
  s.finish();
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

Session& Store::here() {
  // A thread's sessions with the stores that it uses. Either the store or the thread may end first.
  struct Entry {
    Core* core;
    std::weak_ptr<Core> alive;
    Session* session;
  };
  struct Sessions {
    std::vector<Entry> entries;
    ~Sessions() {
      for (const Entry& e : entries) {
        if (const auto core = e.alive.lock()) {
          const std::lock_guard lock(core->mutex);
          core->idle.push_back(e.session);
        }
      }
    }
  };
  Sessions& mine = ThreadOwned<Sessions>::mine();
  for (const Entry& e : mine.entries) {
    if (e.core == core_.get() && !e.alive.expired()) return *e.session;
  }
  std::erase_if(mine.entries, [](const Entry& e) { return e.alive.expired(); });
  const std::lock_guard lock(core_->mutex);
  if (core_->idle.empty()) {
    core_->owned.push_back(std::make_unique<Session>(this->session()));
    core_->idle.push_back(core_->owned.back().get());
  }
  Session* const session = core_->idle.back();
  core_->idle.pop_back();
  mine.entries.push_back({core_.get(), core_, session});
  return *session;
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
      char copied[copied_bytes_max];
      char* copy = copied;
      fill_hit(reply, item, seen.state, shared.heap.value_bytes(item), &copy);
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
