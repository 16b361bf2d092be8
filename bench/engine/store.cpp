#include "bench/engine/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "base/hash.hpp"
#include "bench/engine/wire.hpp"
#include "bench/workload/stream.hpp"
#include "engine/index_kinds.hpp"
#include "preset/preset.hpp"
#include "router/hot_model.hpp"

namespace tandem::bench {
namespace {

using workload::SizeModel;

constexpr std::uint32_t load_batch = 1024;
constexpr std::uint64_t load_piece_bytes = std::uint64_t{16} << 20;  // of requests, prepared before the clock starts

std::uint32_t slot_bytes(std::uint64_t key_bytes, std::uint64_t value_bytes) {
  const std::uint64_t bytes = Item::total_bytes(0, key_bytes, value_bytes);
  return static_cast<std::uint32_t>((bytes + granule_bytes - 1) / granule_bytes * granule_bytes);
}
std::uint32_t mean_slot_bytes(const workload::Spec& spec) {
  return slot_bytes(static_cast<std::uint64_t>(spec.key_bytes.mean()),
                    static_cast<std::uint64_t>(spec.value_bytes.mean()));
}
std::uint32_t slot_bytes_max(const workload::Spec& spec) {
  return slot_bytes(spec.key_bytes.most(), spec.value_bytes.most());
}

// A thread of each of its plans has a context, and beside a device three flights, each with a place among the epochs.
std::uint32_t contexts_max(const EngineSettings& settings) {
  std::uint32_t count = EngineOptions{}.contexts_max;
  for (const PlanChoice& choice : settings.plans) count += choice.threads * (1 + Runner::flights_default);
  return count;
}

// As a store with preset kvcg has it; for given ones, for as many as there are. 0: no key is hot.
std::uint64_t hot_bytes(const EnginePlan& plan, std::uint64_t keys) {
  if (!plan.answers_hot) return 0;
  if (plan.hot_share == 0) return row_of(Preset::kvcg).hot_bytes(hot_bytes_default);
  const double given = plan.hot_share * static_cast<double>(keys);
  return std::max(HotTable::bytes_min, HotTable::bytes_of_key * static_cast<std::uint64_t>(std::ceil(given)));
}

bool same(const workload::Sizes& a, const workload::Sizes& b) {
  return a.model == b.model && a.low == b.low && a.high == b.high;
}

}  // namespace

std::uint64_t keys_that_fill(const workload::Spec& spec, std::uint64_t item_bytes) {
  return std::max<std::uint64_t>(1, item_bytes / mean_slot_bytes(spec));
}

bool Keys::same_as(const workload::Spec& other) const {
  return spec.keys == other.keys && same(spec.key_bytes, other.key_bytes) && same(spec.value_bytes, other.value_bytes);
}

LoadedStore::LoadedStore(const std::vector<workload::Spec>& specs, const EngineSettings& settings,
                         const EnginePlan& plan, unsigned threads)
    : index_(settings.index) {
  std::uint64_t item_bytes = 0, items = 0;
  ReplicaImagesOptions copies;  // of items of these sizes, if a device can have them
  for (const workload::Spec& spec : specs) {
    if (std::ranges::any_of(keys_, [&](const auto& k) { return k->same_as(spec); })) continue;
    keys_.push_back(std::make_unique<Keys>(spec));
    item_bytes += spec.keys * mean_slot_bytes(spec);
    items += spec.keys;
    copies.item_bytes = std::max(copies.item_bytes, slot_bytes_max(spec));
  }
  // Twice the items' memory: SETs write beside the old item, and workloads may insert.
  constexpr std::uint64_t spare_bytes = std::uint64_t{64} << 20;
  memory_bytes_ = 2 * item_bytes + spare_bytes;
  // The order of small items takes as much as they do, and at most half of a store is its index.
  constexpr std::uint64_t order_bytes = 96;
  if (index_ == "ordered" || index_ == "hash_tree") memory_bytes_ += items * order_bytes;
  slot_bytes_ = static_cast<std::uint32_t>(item_bytes / items);
  item_bytes_expected_ = slot_bytes_ * 2;
  if (may_evict()) {
    // 1.6 entries for each key: some in a thousand find their set full. A third of the memory may be the table.
    const std::uint64_t table_bytes = index_kind_named(index_).fixed_entry_bytes * items * 8 / 5;
    memory_bytes_ = std::max(memory_bytes_, 3 * table_bytes + spare_bytes);
    item_bytes_expected_ = static_cast<std::uint32_t>(std::max<std::uint64_t>(memory_bytes_ * 5 / 6 / items, 32));
  }
  const std::uint64_t hot_memory_bytes = hot_bytes(plan, items);
  memory_bytes_ += hot_memory_bytes;
  if (plan.placement == tandem::Placement::mirrored_values) copies.bytes = memory_bytes_;
  RouterOptions router;
  router.threshold = plan.hot_threshold;
  engine_ = std::make_unique<Engine>(
      EngineOptions{.memory_bytes = memory_bytes_,
                    .item_bytes_expected = item_bytes_expected_,
                    .contexts_max = contexts_max(settings),
                    .memory_file = settings.memory_file,
                    .index_kind = index_ == "ordered" ? "cuckoo" : std::string_view(index_),
                    .ordered = index_ == "ordered",
                    .devices = plan.devices(settings.devices),
                    .index_on_device = plan.placement == tandem::Placement::on_device,
                    .hot_memory_bytes = hot_memory_bytes,
                    .learns_hot_keys = plan.hot_share == 0,
                    .router = router,
                    .scheduler = {.processor = allowed_processors().back(), .steal = settings.steal},
                    .follows_load = plan.is_chosen,
                    .device_values = copies});
  for (std::size_t i = 0; i < keys_.size(); ++i)
    loads_.push_back(load(i, engine_plan("cpu"), settings.protocol, threads));
  wait_until_settled();
  const std::uint64_t lost_max = may_evict() ? items / 50 + 16 : 0;
  if (const EngineStats stats = engine_->stats();
      stats.counters.evictions > lost_max || stats.items + lost_max < items) {
    throw std::runtime_error(
        fmt::format("of {} keys only {} fit the store's {} bytes", items, stats.items, memory_bytes_));
  } else if (may_evict()) {
    evicted_share_ = static_cast<double>(stats.counters.evictions) / static_cast<double>(items);
  }
  if (plan.hot_share != 0) give_hot_keys(plan.hot_share);
}

// The most popular keys, as Stream has their ranks.
void LoadedStore::give_hot_keys(double share) {
  const Keys& k = *keys_.front();
  std::vector<Fingerprint> hot(static_cast<std::size_t>(std::ceil(share * static_cast<double>(k.spec.keys))));
  std::vector<char> bytes(k.spec.key_bytes.most());
  for (std::uint64_t rank = 0; rank < hot.size(); ++rank) {
    const char* const end = k.space.write_key(workload::scatter(rank, k.spec.keys, k.spec.seed), bytes.data());
    hot[rank] =
        fingerprint_of({bytes.data(), static_cast<std::size_t>(end - bytes.data())}, engine_->shared().hash_seed);
  }
  if (!engine_->set_hot_model(HotModel::of_keys(hot))) throw std::runtime_error("no memory for so many hot keys");
}

// A growth halves what the store does, and goes on for seconds after the keys that began it were stored.
void LoadedStore::wait_until_settled(std::chrono::milliseconds quiet_for) {
  const bool has_devices = !engine_->options().devices.empty();
  if (has_devices && engine_->schedulers() == nullptr) throw std::runtime_error("the device cannot be used");
  constexpr int seconds = 120;
  const auto behind_load = std::chrono::milliseconds(has_devices ? 200 : 20);
  const auto quiet_ms = (quiet_for.count() != 0 ? quiet_for : behind_load).count();
  const Shared& shared = engine_->shared();
  const auto rests = [](const DeviceStats& device) {
    return device.replica.absence == ReplicaAbsence::rests || device.replica.state == ReplicaState::resting;
  };
  for (int ms = 0, quiet = 0; ms < seconds * 1000 && quiet < quiet_ms; ++ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const bool wants_growth = shared.index.wants_growth() && !shared.growth_refused.load(std::memory_order_relaxed);
    const bool serves =
        !has_devices || engine_->schedulers()->serves() || std::ranges::any_of(engine_->device_stats(), rests);
    quiet = serves && !wants_growth && !shared.index.growing() ? quiet + 1 : 0;
  }
  if (shared.index.growing()) throw std::runtime_error("the index is still growing after two minutes");
  if (!has_devices) return;
  for (const DeviceStats& device : engine_->device_stats()) {
    const ReplicaStats& stats = device.replica;
    if (stats.images_given_up) throw std::runtime_error("the device has no memory for the items");
    if (!device.serves && !rests(device)) {
      throw std::runtime_error(
          fmt::format("the device's replica is {} ({})", name_of(stats.state), name_of(stats.absence)));
    }
  }
}

LoadedStore::Load LoadedStore::load(std::size_t keys, const EnginePlan& plan, WireProtocol protocol, unsigned threads) {
  struct Part {
    double seconds = 0;
    std::uint64_t ops = 0, request_bytes = 0;
  };
  const Keys& k = *keys_[keys];
  const std::uint64_t piece_keys = std::max<std::uint64_t>(load_batch, load_piece_bytes / mean_slot_bytes(k.spec));
  std::vector<Part> parts(threads);
  on_each_thread(threads, [&](unsigned t) {
    Part& part = parts[t];
    const std::uint64_t end = k.spec.keys * (t + 1) / threads;
    for (std::uint64_t first = k.spec.keys * t / threads; first < end; first += piece_keys) {
      const Tape tape(k.space, protocol, first, std::min(end, first + piece_keys), load_batch);
      WireDriver driver(*engine_, plan, tape.format().protocol(), load_batch, tape.batch_bytes_max());
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < tape.size(); ++i) {
        const Tape::Slice batch = tape.batch(i);
        if (driver.run(batch).reply_bytes != batch.reply_bytes)
          throw std::runtime_error("a SET was refused while the keys were loaded: the store is too small");
      }
      part.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      part.ops += tape.ops().size();
      part.request_bytes += tape.bytes();
    }
  });
  Load load{.keys = keys, .turn = {}};
  for (const Part& part : parts) {
    load.turn.ops += part.ops;
    load.turn.seconds += part.seconds / threads;
    if (part.seconds > 0) load.turn.ops_per_s += static_cast<double>(part.ops) / part.seconds;
    load.request_bytes += part.request_bytes;
  }
  return load;
}

const Keys& LoadedStore::keys_of(const workload::Spec& spec) const {
  const auto found = std::ranges::find_if(keys_, [&](const auto& k) { return k->same_as(spec); });
  if (found == keys_.end()) throw std::logic_error("these keys are not loaded");
  return **found;
}

bool LoadedStore::holds(const std::vector<workload::Spec>& specs) const {
  return std::ranges::all_of(specs, [&](const workload::Spec& spec) {
    return std::ranges::any_of(keys_, [&](const auto& k) { return k->same_as(spec); });
  });
}

bool LoadedStore::may_evict() const { return index_ != "ordered" && index_kind_named(index_).fixed_entry_bytes != 0; }

bool LoadedStore::has_fixed_sizes() const {
  const workload::Spec& spec = keys_.front()->spec;
  return spec.key_bytes.model == SizeModel::fixed && spec.value_bytes.model == SizeModel::fixed;
}

Store& LoadedStore::embedded() {
  if (embedded_ != nullptr) return *embedded_;
  embedded_ = std::make_unique<Store>(Options{.memory_bytes = memory_bytes_,
                                              .item_bytes_expected = item_bytes_expected_,
                                              .ordered = index_ == "ordered",
                                              .preset = "cpu",
                                              .index = index_ == "ordered" ? "" : index_});
  const Keys& k = *keys_.front();
  std::vector<char> bytes;
  std::vector<Request> requests;
  for (std::uint64_t first = 0; first < k.spec.keys; first += load_batch) {
    const std::uint64_t end = std::min<std::uint64_t>(k.spec.keys, first + load_batch);
    std::uint64_t total = 0;
    for (std::uint64_t key = first; key < end; ++key) total += k.space.key_bytes(key) + k.space.value_bytes(key);
    bytes.resize(total);
    requests.clear();
    char* at = bytes.data();
    for (std::uint64_t key = first; key < end; ++key) {
      char* const value = k.space.write_key(key, at);
      char* const next = k.space.write_value(key, value);
      requests.push_back({.action = Action::set,
                          .key = {at, static_cast<std::size_t>(value - at)},
                          .value = {value, static_cast<std::size_t>(next - value)}});
      at = next;
    }
    bool stored = true;
    embedded_->execute(requests, [&](std::size_t, const Reply& reply) { stored &= reply.code == Code::stored; });
    if (!stored) throw std::runtime_error("a set was refused while the keys were loaded: the store is too small");
  }
  return *embedded_;
}

const Ceiling& LoadedStore::ceiling() {
  if (ceiling_ == nullptr) {
    const workload::Spec& spec = keys_.front()->spec;
    ceiling_ =
        std::make_unique<Ceiling>(spec.key_bytes.low, spec.value_bytes.low, spec.keys, engine_->stats().index_bytes);
  }
  return *ceiling_;
}

}  // namespace tandem::bench
