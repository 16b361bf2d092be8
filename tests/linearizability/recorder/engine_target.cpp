// The store in this process a layer below its public API: what a session's calls are made of (store/session.hpp), with
// a plan for each call, devices in software that have faults, and pages that can be moved.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "calls_client.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/sim/sim_device.hpp"
#include "embedded/device_calls.hpp"
#include "engine/engine.hpp"
#include "planner/planner.hpp"
#include "task/scan.hpp"

namespace tandem::record {
namespace {

using namespace std::chrono_literals;

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

class EngineClient final : public CallsClient {
 public:
  EngineClient(Engine& engine, const TargetOptions& options, std::uint64_t seed)
      : CallsClient(options.pause_us, seed),
        engine_(engine),
        context_(engine.make_context()),
        lane_(*context_),
        planner_(std::in_place, Preset::cpu, engine.schedulers(), engine.shared().placement),
        host_percent_(options.host_percent),
        random_(seed) {
    draws_ = options.batch_plan == "drawn";
    if (!draws_ && !options.batch_plan.empty()) plan_ = Plan::parse(options.batch_plan);
    if (options.plan == "cpu" || !lane_.takes_found()) return;
    try {
      devices_ = std::make_unique<DeviceCalls>(*context_, *engine.schedulers(), *planner_, lane_, batch_queries);
    } catch (const DeviceError&) {
      devices_ = nullptr;  // lost; as a session, it goes on without
    }
  }

 private:
  // Few, so that a large burst takes all flights; not one set of stealing (64), or nothing could be stolen.
  static constexpr std::uint32_t batch_queries = 96;

  void scan(Operation& o) override {
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
  void flush() override { engine_.flush_all(0); }

  void execute(std::span<const Request> requests, const Visit& visit) override {
    const Counter& searched = context_->tasks.on_device[index_of(Task::search)];
    searched_.clear();
    const Visit noting = [&](std::size_t i, const Reply& reply) {
      while (searched_.size() * batch_queries <= i) searched_.push_back(searched.get());
      visit(i, reply);
    };
    const auto visit_all = [](void* to, std::size_t first, std::span<const Reply> replies) {
      for (std::size_t i = 0; i < replies.size(); ++i) (*static_cast<const Visit*>(to))(first + i, replies[i]);
    };
    void* const to = const_cast<Visit*>(&noting);
    if (devices_ != nullptr && random_() % 100 >= host_percent_) {
      choose();
      devices_->run(requests, visit_all, to);
      return searched_.push_back(searched.get());
    }
    for (std::size_t done = 0; done != requests.size();) done += lane_.run(requests.subspan(done), done, visit_all, to);
    searched_.clear();
  }
  // Of a batch devices search for the front, unless they were late.
  Path path_of(std::size_t i) const override {
    const std::size_t batch = i / batch_queries;
    const bool is_searched =
        batch + 1 < searched_.size() && i % batch_queries < searched_[batch + 1] - searched_[batch];
    return is_searched ? Path::device : Path::host;
  }

  // A plan for the next call. The one that was given, as long as it is feasible: a lost device takes its placement
  // along.
  void choose() {
    const auto placement = placement_of(engine_.schedulers(), engine_.shared().placement);
    const auto feasible = feasible_plans(placement);
    Plan plan = feasible.front();
    if (plan_ && why_not(placement, *plan_).empty()) {
      plan = *plan_;
    } else if (draws_) {
      plan = feasible[random_() % feasible.size()];
      const Plan front = plan.split(static_cast<std::uint16_t>(1 + random_() % 3));
      if (random_() % 2 == 0 && why_not(placement, front).empty()) plan = front;
    }
    try {
      planner_.emplace(plan, engine_.schedulers(), engine_.shared().placement);
    } catch (const std::invalid_argument&) {  // a device was lost meanwhile
      planner_.emplace(Preset::cpu, engine_.schedulers(), engine_.shared().placement);
    }
  }

  Engine& engine_;
  Engine::ContextPtr context_;
  CallLane lane_;
  std::optional<Planner> planner_;
  std::unique_ptr<DeviceCalls> devices_;  // nullptr: the host does everything
  std::optional<Plan> plan_;
  bool draws_ = false;  // each call's plan
  const std::uint32_t host_percent_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> searched_;  // by devices until each batch of the last call began, and until it ended
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
  e.index_on_device = o.plan == "device" || o.plan == "hot";
  if (o.plan == "hot") e.hot_memory_bytes = 512 << 10;
  e.learns_hot_keys = false;
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
    if (o.plan == "hot") flipper_ = std::thread([this] { flip(); });
  }
  ~EngineTarget() override {
    ends_ = true;
    if (flipper_.joinable()) flipper_.join();
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
            .hot_queries = s.counters.hot_queries,
            .turned_hot = hot_stats().promoted,
            .turned_cold = hot_stats().cleaned,
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
  HotTableStats hot_stats() const {
    const auto stats = engine_.hot_key_stats();
    return stats ? stats->table : HotTableStats{};
  }
  // Most of the keys are hot, then others; a call whose keys all are asks no device.
  void flip() {
    std::mt19937_64 random(options_.seed);
    std::array<std::uint8_t, 64> bins{};
    while (!ends_) {
      for (std::uint8_t& bin : bins) bin = random() % 8 != 0;
      engine_.set_hot_model(HotModel::of_bins(bins));
      std::this_thread::sleep_for(1ms);
    }
  }

  // Which call of fault() loses a device in any case; 0: none. One seed in four has one, among them the first, so that
  // a few seeds are sure to have lost one, sooner or later.
  std::uint64_t lost_at() const noexcept { return options_.seed % 4 == 1 ? 1 + options_.seed / 4 % 16 : 0; }

  const TargetOptions options_;
  const Devices devices_;
  Engine engine_;
  std::uint64_t faults_ = 0;
  std::atomic<bool> ends_{false};
  std::thread flipper_;
};

}  // namespace

std::unique_ptr<Target> open_engine(const TargetOptions& options) { return std::make_unique<EngineTarget>(options); }

}  // namespace tandem::record
