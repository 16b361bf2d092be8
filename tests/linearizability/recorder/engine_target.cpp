// The store in this process a layer below its public API, where batches can go through a device (in software) and pages
// can be moved.
#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/cuda/cuda_device.hpp"
#include "device/sim/sim_device.hpp"
#include "lane/call_query.hpp"
#include "pause.hpp"
#include "pipeline/runner.hpp"
#include "requests.hpp"
#include "scan_read.hpp"
#include "store/engine.hpp"
#include "target.hpp"
#include "task/scan.hpp"
#include "values.hpp"

namespace tandem::record {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t batch_queries = burst_max + 1;
constexpr std::uint32_t a_control = UINT32_MAX;  // not the number of an operation

Outcome outcome_of_status(Kind kind, Status status) {
  switch (status) {
    case Status::hit:
      return kind == Kind::get ? Outcome::hit : Outcome::touched;
    case Status::miss:
    case Status::not_found:
      return Outcome::miss;
    case Status::stored:
      return Outcome::stored;
    case Status::not_stored:
      return Outcome::not_stored;
    case Status::exists:
      return Outcome::exists;
    case Status::removed:
      return Outcome::removed;
    case Status::number:
      return Outcome::number;
    case Status::not_a_number:
      return Outcome::not_a_number;
    case Status::out_of_memory:
      return Outcome::no_memory;
    case Status::none:
    case Status::too_large:
      break;
  }
  throw std::runtime_error("an answer that fits no request");
}

// Copies a snapshot's items as Session::scan() does, and takes its time between them.
class PausingSink final : public ItemSink {
 public:
  explicit PausingSink(Pause& pause) : pause_(pause) {}
  void restart() override {
    items_.clear();
    bytes_ = 0;
  }
  bool item(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) override {
    constexpr std::uint64_t bytes_max = 256 * 1024;
    if (!items_.empty() && bytes_ + value_bytes > bytes_max) return false;
    bytes_ += value_bytes;
    items_.push_back({&item, std::string(item.key()), std::string(value_bytes, ' '), seen.cas(), item.client_flags()});
    if (value_bytes <= rewritten_value_bytes_max) racing_copy(items_.back().value.data(), item.value(), value_bytes);
    if (items_.size() == 1) pause_.sometimes();
    return true;
  }
  void complete() override {
    for (Copy& copy : items_) {
      if (copy.value.size() > rewritten_value_bytes_max)
        std::copy_n(copy.item->value(), copy.value.size(), copy.value.begin());
    }
  }
  void give(ScanRead& read) const {
    for (const Copy& copy : items_) read.item(copy.key, copy.value, copy.cas, copy.flags);
  }

 private:
  struct Copy {
    const Item* item;
    std::string key, value;
    std::uint64_t cas;
    std::uint32_t flags;
  };
  Pause& pause_;
  std::vector<Copy> items_;
  std::uint64_t bytes_ = 0;
};

class EngineClient final : public Client, private ResponseWriter {
 public:
  EngineClient(Engine& engine, const TargetOptions& options, std::uint64_t seed)
      : engine_(engine),
        context_(engine.make_context()),
        pause_(options.pause_us, seed),
        host_percent_(options.host_percent),
        random_(seed) {
    const Schedulers* const schedulers = options.plan != "cpu" ? engine.schedulers() : nullptr;
    try {
      runner_ = std::make_unique<Runner>(*context_, schedulers, batch_queries);
    } catch (const DeviceError&) {  // lost; as a server's worker, it goes on without
      runner_ = std::make_unique<Runner>(*context_, nullptr, batch_queries);
    }
    draws_ = options.batch_plan == "drawn";
    if (!draws_ && !options.batch_plan.empty()) plan_ = Plan::parse(options.batch_plan);
  }

  void run(std::span<Operation> burst) override {
    for_each_part(burst, [this](Operation& o) { scan(o); }, [this](std::span<Operation> part) { run_part(part); });
  }
  bool abandon(std::span<Operation> /*burst*/) override { return false; }

 private:
  void scan(Operation& o) {
    PausingSink sink(pause_);
    o.called_ns = now_ns();
    context_->let_go();
    const ScanEnd end = task::scan(*context_, {.begin = o.scan.begin, .end = o.scan.end, .reverse = o.scan.reverse},
                                   o.scan.limit, sink);
    o.returned_ns = now_ns();
    if (end.failed) throw std::bad_alloc();
    ScanRead read(o);
    sink.give(read);
    read.end(end.done, end.last_key());
  }

  void run_part(std::span<Operation> burst) {
    burst_ = burst;
    const std::int64_t called = now_ns();
    if (burst[0].kind == Kind::flush) {
      engine_.flush_all(0);
      burst[0].outcome = Outcome::flushed;
    } else {
      ask(burst);
    }
    const std::int64_t returned = now_ns();
    for (Operation& o : burst) {
      o.called_ns = called;
      o.returned_ns = returned;
    }
    for (const std::uint32_t i : std::exchange(again_, {})) ask_again(burst[i]);
  }

  // A burst is a batch. Where the host has a share it may be several, each with keys of its own, so that operations on
  // one key stay in order; the host answers some while the device has the rest, as a server's worker does with the
  // batches of several connections.
  void ask(std::span<const Operation> burst) {
    const std::uint64_t batches = mixes() ? 1 + random_() % Runner::flights_default : 1;
    const std::uint64_t salt = mixes() ? random_() : 0;
    for (std::uint64_t number = 0; number < batches; ++number) {
      std::vector<std::uint32_t> asked;
      for (std::uint32_t i = 0; i < burst.size(); ++i) {
        if (batches == 1 || std::hash<std::string>()(burst[i].key + std::to_string(salt)) % batches == number)
          asked.push_back(i);
      }
      if (asked.empty()) continue;
      // What a device has found for this worker's batches is let go of for a control command: the host goes on, from
      // the middle of one.
      if (mixes() && random_() % 8 == 0)
        asked.insert(asked.begin() + static_cast<std::ptrdiff_t>(random_() % asked.size()), a_control);
      Batch& batch = runner_->filling();
      for (const std::uint32_t i : asked) {
        if (i == a_control) {
          batch.next() = {};
          batch.next().opcode = Opcode::control;
          batch.commit();
        } else {
          fill_next(batch, burst[i]);
        }
      }
      if (!(mixes() && random_() % 100 < host_percent_)) {
        in_flight_.push_back(std::move(asked));
        runner_->submit(plan_of_batch());
        if (mixes() && random_() % 4 == 0) answer_oldest();
      } else {
        answered_ = std::move(asked);
        path_ = Path::host;
        batch.plan = plan_cpu;
        runner_->run(batch, *this);
        batch.clear();
      }
    }
    while (!in_flight_.empty()) answer_oldest();
  }
  bool mixes() const { return runner_->has_devices() && host_percent_ != 0; }
  // The one that was given, as long as it is feasible: a lost device takes its placement along.
  Plan plan_of_batch() {
    const auto feasible = feasible_plans(engine_.placement());
    if (plan_ && why_not(engine_.placement(), *plan_).empty()) return *plan_;
    if (!draws_) return feasible.front();
    const Plan plan = feasible[random_() % feasible.size()];
    const Plan front = plan.split(static_cast<std::uint16_t>(1 + random_() % 3));
    return random_() % 2 == 0 && why_not(engine_.placement(), front).empty() ? front : plan;
  }

  void fill_next(Batch& batch, const Operation& o) {
    // Every other read leaves the comparison of its key to us.
    const bool by_caller = o.kind == Kind::get && caller_compares_ && ++gets_ % 2 == 0;
    Query& q = batch.next();
    q = {};
    lane::fill(q, request_of(o, by_caller ? KeyCheck::caller : KeyCheck::store), engine_.shared().clock);
    batch.commit();
  }

  // What was answered was about another key: now the store compares.
  void ask_again(Operation& o) {
    burst_ = {&o, 1};
    o.burst |= asked_again;
    o.called_ns = now_ns();
    caller_compares_ = false;
    ask(burst_);
    caller_compares_ = true;
    o.returned_ns = now_ns();
  }

  void answer_oldest() {
    answered_ = std::move(in_flight_.front());
    in_flight_.pop_front();
    path_ = Path::device;
    runner_->answer_oldest(*this);
  }

  void take_displaced(Operation& o, const Result& r) {
    if (o.kind == Kind::exchange) o.outcome = Outcome::hit;
    pause_.sometimes();
    o.expected = r.item->cas(r.state);
    o.read = value_of({r.item->bytes() + r.value_offset, r.value_bytes});
    o.read_flags = r.item->client_flags();
  }

  bool write(Batch& batch, Strip strip) override {
    for (std::uint32_t i = strip.begin; i < strip.end; ++i) {
      const Result& r = batch.result(i);
      Operation& o = burst_[answered_[i]];
      // The host has what a device was not asked for, or was let go of.
      o.path = path_ == Path::device && batch.searched_at(i) ? Path::device : Path::host;
      o.outcome = outcome_of_status(o.kind, r.status);
      if (o.outcome == Outcome::number) o.read = std::to_string(r.number);
      if (o.outcome == Outcome::stored) o.cas = r.number;
      if ((r.outcome & outcome::displaced) != 0) {
        take_displaced(o, r);
        continue;
      }
      if (o.outcome == Outcome::hit) {
        if (o.kind == Kind::get && !r.item->has_key(o.key)) {
          again_.push_back(answered_[i]);
          continue;
        }
        pause_.sometimes();
        std::uint32_t expiry_s = Clock::never;
        copied_.resize(r.value_bytes);
        copy_validated(r.item, r.state, [&](const ItemVersion& seen) noexcept {
          o.cas = seen.cas();
          // A long value is never rewritten in place: its item is told of as it was found.
          expiry_s = Item::expiry_of(r.value_bytes > rewritten_value_bytes_max ? r.state : seen.state);
          racing_copy(copied_.data(), r.item->bytes() + r.value_offset, r.value_bytes);
        });
        o.read = value_of(copied_);
        if (o.kind == Kind::get) {
          o.read_flags = r.item->client_flags();
          o.left_s = expiry_s == Clock::never ? Operation::never_expires
                                              : std::int64_t{expiry_s} - engine_.shared().clock.now_s();
        }
      }
    }
    return true;
  }
  void control(Batch& /*batch*/, std::uint32_t /*i*/) override {}

  Engine& engine_;
  Engine::ContextPtr context_;
  std::unique_ptr<Runner> runner_;
  std::optional<Plan> plan_;
  bool draws_ = false;  // each batch's plan
  Pause pause_;
  std::string copied_;
  const std::uint32_t host_percent_;
  std::mt19937_64 random_;
  std::span<Operation> burst_;
  std::deque<std::vector<std::uint32_t>> in_flight_;  // of each batch: which operations of the burst
  std::vector<std::uint32_t> answered_;               // those of the one that is being answered
  Path path_ = Path::host;
  std::uint64_t gets_ = 0;
  bool caller_compares_ = true;
  std::vector<std::uint32_t> again_;  // operations of the burst
};

struct Devices {
  explicit Devices(const TargetOptions& o) {
    if (o.plan == "cpu") return;
    const std::uint32_t first = o.gpu == "sim" ? 0 : static_cast<std::uint32_t>(std::stoul(o.gpu));
    for (std::uint32_t number = first; number < first + o.devices; ++number) {
      if (o.gpu != "sim") {
        all.push_back(make_cuda_device(number));
        continue;
      }
      simulated.push_back(std::make_shared<SimDevice>(
          SimOptions{.number = number, .latency = std::chrono::microseconds(o.device_latency_us)}));
      all.push_back(simulated.back());
    }
  }

  std::vector<std::shared_ptr<Device>> all;
  std::vector<std::shared_ptr<SimDevice>> simulated;  // those that faults can be asked of
};

EngineOptions engine_options(const TargetOptions& o, const Devices& devices) {
  EngineOptions e;
  e.memory_bytes = o.memory_bytes;
  e.item_bytes_expected = o.item_bytes_expected;
  e.huge_pages = false;
  e.evict = o.evict;
  e.hash_seed = o.seed;
  e.memory_file = o.memory_file;
  e.index_kind = o.index_kind;
  e.ordered = o.ordered != 0;
  e.tree = {.leaf_cells = o.leaf_cells, .node_children = std::clamp(o.leaf_cells, 8u, 256u)};
  e.scans_per_look = 1;
  e.devices = devices.all;
  e.index_on_device = o.plan == "device";
  e.scheduler.steal = o.devices > 1 && !e.index_on_device;
  if (o.plan == "values") e.device_values.bytes = o.values_bytes;
  return e;
}

class EngineTarget final : public Target {
 public:
  explicit EngineTarget(const TargetOptions& o) : options_(o), devices_(o), engine_(engine_options(o, devices_)) {
    for (int i = 0; o.plan != "cpu" && !engine_.schedulers()->serves(); ++i) {
      if (i == 2000) throw std::runtime_error("the device does not serve");
      std::this_thread::sleep_for(5ms);
    }
    if (!o.batch_plan.empty() && o.batch_plan != "drawn")
      require_feasible(engine_.placement(), Plan::parse(o.batch_plan));
  }
  std::unique_ptr<Client> client(std::uint64_t seed) override {
    return std::make_unique<EngineClient>(engine_, options_, seed);
  }
  TargetStats stats() override {
    const EngineStats s = engine_.stats();
    std::uint64_t searched_batches = 0, handed_over = 0;
    for (const DeviceStats& device : engine_.device_stats()) {
      searched_batches += device.searched_batches;
      handed_over += device.queries;
    }
    return {.evictions = s.counters.evictions,
            .pages_moved = s.pages_moved,
            .index_bytes = s.index_bytes,
            .searched_batches = searched_batches,
            .image_hits = s.counters.device_images,
            .devices_lost = static_cast<std::uint64_t>(std::ranges::count_if(devices_.simulated, &SimDevice::lost)),
            .handed_over = handed_over,
            .stolen = s.counters.device_stolen};
  }
  void move_page(std::uint32_t to_class) override { engine_.reassign(-1, static_cast<int>(to_class)); }
  void fault(std::uint64_t random) override {
    if (devices_.simulated.empty()) return;
    SimDevice& device = *devices_.simulated[random % devices_.simulated.size()];
    random /= devices_.simulated.size();
    const std::uint64_t nth = 1 + random / 512 % 16;
    device.resume();
    device.slow(1);
    const std::uint64_t dice = random % 512;
    if (dice == 0 || ++faults_ == lost_at()) device.lose();
    if (dice >= 1 && dice < 33) device.hang();
    if (dice >= 33 && dice < 161) device.refuse(nth);
    if (dice >= 161 && dice < 289) device.fail(nth);
    if (dice >= 289 && dice < 353) device.slow(static_cast<double>(10 * nth));
  }

 private:
  // Which call of fault() loses a device in any case; 0: none. One seed in four has one, among them the first, so that
  // a few seeds are sure to have lost one, sooner or later.
  std::uint64_t lost_at() const noexcept { return options_.seed % 4 == 1 ? 1 + options_.seed / 4 % 16 : 0; }

  const TargetOptions options_;
  const Devices devices_;
  Engine engine_;
  std::uint64_t faults_ = 0;
};

}  // namespace

std::unique_ptr<Target> open_engine(const TargetOptions& options) { return std::make_unique<EngineTarget>(options); }

}  // namespace tandem::record
