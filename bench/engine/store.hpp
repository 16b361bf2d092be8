// The store of a cell with its keys loaded, and its counterparts: the embedded store, the table of the ceilings.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/engine/ceiling.hpp"
#include "bench/engine/engine.hpp"
#include "bench/engine/plan.hpp"
#include "bench/engine/tape.hpp"
#include "bench/engine/threads.hpp"
#include "bench/workload/keys.hpp"
#include "bench/workload/spec.hpp"
#include "engine/engine.hpp"
#include "tandem/store.hpp"

namespace tandem::bench {

// Number of keys of these sizes that fill `item_bytes` of slots.
std::uint64_t keys_that_fill(const workload::Spec& spec, std::uint64_t item_bytes);

// A workload's keys and their specification.
struct Keys {
  explicit Keys(const workload::Spec& s) : spec(s), space(s) {}
  workload::Spec spec;
  workload::KeySpace space;
  // Whether the keys are the same, whatever the operations.
  bool same_as(const workload::Spec& other) const;
};

class LoadedStore {
 public:
  struct Load {
    std::size_t keys;  // index of the key space
    Turn turn;
    std::uint64_t request_bytes = 0;
  };

  // Stores the values of all keys by SETs in wire format, on `threads` threads, for runs of this plan. Throws
  // std::runtime_error when they do not fit.
  LoadedStore(const std::vector<workload::Spec>& specs, const EngineSettings& settings, const EnginePlan& plan,
              unsigned threads);

  Engine& engine() noexcept { return *engine_; }
  const std::vector<std::unique_ptr<Keys>>& keys() const noexcept { return keys_; }
  const Keys& keys_of(const workload::Spec& spec) const;
  const std::vector<Load>& loads() const noexcept { return loads_; }
  bool holds(const std::vector<workload::Spec>& specs) const;
  // Waits until the index has stopped growing and the device has all that was stored, unless its replica rests. Throws
  // std::runtime_error on failure.
  // It has settled when nothing has changed for `quiet`; 0: as long as behind a load.
  void wait_until_settled(std::chrono::milliseconds quiet = {});
  std::uint64_t memory_bytes() const noexcept { return memory_bytes_; }

  // Both are made at the first call, for the first key space.
  Store& embedded();
  const Ceiling& ceiling();
  bool has_fixed_sizes() const;
  // Whether its table keeps its size, so that a few of the keys may have been evicted.
  bool may_evict() const;
  // Of the keys, while they were stored.
  double evicted_share() const noexcept { return evicted_share_; }

 private:
  Load load(std::size_t keys, const EnginePlan& plan, WireProtocol protocol, unsigned threads);
  void give_hot_keys(double share);

  std::string index_;  // of engine_indexes(); the engine's options refer to it
  std::vector<std::unique_ptr<Keys>> keys_;
  std::uint64_t memory_bytes_ = 0;
  std::uint32_t slot_bytes_ = 0;
  std::uint32_t item_bytes_expected_ = 0;
  double evicted_share_ = 0;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Store> embedded_;
  std::unique_ptr<Ceiling> ceiling_;
  std::vector<Load> loads_;
};

}  // namespace tandem::bench
