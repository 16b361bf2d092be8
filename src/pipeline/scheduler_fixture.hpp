// For tests: a store, the devices that search its index, and one worker. Its answers are compared with those of a map.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pipeline/runner.hpp"
#include "placement/mirrored/replica.hpp"
#include "placement/mirrored/replica_log.hpp"
#include "plan/placement.hpp"
#include "query/query_of.hpp"
#include "task/codes.hpp"
#include "task/one_by_one.hpp"

namespace tandem {

// For devices that hang: short for a test, but long enough for the threads of a busy machine. Otherwise the device
// would be lost before it hangs.
inline constexpr std::chrono::milliseconds short_deadline{500};
// For all other tests: it passes only if a test hangs.
inline constexpr std::chrono::milliseconds long_deadline{60'000};

struct Expected {
  Status status;
  std::string value;
};

// Compares each answer with the result that a map gives for the query.
class Comparing final : public ResultSink {
 public:
  void write(Batch& batch, std::uint32_t i) override {
    const Result& r = batch.result(i);
    const Expected& e = expected->at(i);
    EXPECT_EQ(r.status, e.status) << batch.query(i).key_view();
    if (r.status == Status::hit && e.status == Status::hit) {
      EXPECT_EQ(std::string(r.item->value(), r.value_bytes), e.value) << batch.query(i).key_view();
    }
    ++answered;
  }
  void control(Batch&, std::uint32_t) override { ++answered; }

  const std::vector<Expected>* expected = nullptr;
  std::uint64_t answered = 0;
};

// A store, its device, and one worker.
struct SchedulerRig {
  static constexpr unsigned batch_queries = 256;

  explicit SchedulerRig(Device& on, const SchedulerOptions& options = patient(), std::uint64_t cells = 1 << 14,
                        std::uint64_t memory_bytes = std::uint64_t{32} << 20, const ReplicaOptions& replicas = {})
      : SchedulerRig(std::vector<Device*>{&on}, options, cells, memory_bytes, replicas) {}
  // Each has a shard.
  explicit SchedulerRig(const std::vector<Device*>& devices, const SchedulerOptions& options = patient(),
                        std::uint64_t cells = 1 << 14, std::uint64_t memory_bytes = std::uint64_t{32} << 20,
                        const ReplicaOptions& replicas = {})
      : log({.ring_granules = 64,  // few, so that some sets in place announce their cell
             .shard_bits = static_cast<std::uint32_t>(std::bit_width(devices.size()) - 1),
             .dirty = devices.size() == 1 ? &dirty : nullptr}),
        budget(memory_bytes),
        epochs(64),
        heap({.huge_pages = false}, budget, epochs),
        dirty(heap, replicas.images.bytes, budget),
        index({.cells_initial = cells,
               .hash_seed = 7,
               .huge_pages = false,
               .log = &log,
               .shard_bits = static_cast<std::uint32_t>(std::bit_width(devices.size()) - 1)},
              budget, epochs, heap),
        placement(index, heap),
        shared{.heap = heap,
               .index = index,
               .code = cuckoo_code,
               .placement = placement,
               .epochs = epochs,
               .clock = clock,
               .policy = {},
               .hash_seed = 7,
               .dirty = &dirty},
        context(shared),
        parts(make_parts(devices, options, replicas)),
        replica(parts.front()->replica),
        scheduler(parts.front()->scheduler),
        schedulers(all(parts)),
        batches(context, &schedulers, batch_queries),
        plan(feasible_plans(replica.image_granules() != 0 ? Placement::mirrored_values : Placement::mirrored).front()) {
    clock.freeze_for_test(1000);
    if (replicas.images.bytes != 0) shared.rewrites = Rewrites::announced;
    shared.growth_refused = true;  // only tests grow the index here
    keys.resize(batches.count());
    values.resize(batches.count());
    expected.resize(batches.count());
  }
  ~SchedulerRig() { finish(); }
  static SchedulerOptions patient() { return {.deadline = long_deadline}; }

  void wait_until_it_serves() {
    for (int i = 0; i < 20'000 && !schedulers.serves(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(schedulers.serves());
  }

  // Adds a query to the batch being filled, submits it when it is full, and answers what is done.
  void add(Opcode opcode, std::string key, std::string value = {}) {
    if (!batches.can_fill()) answer();
    const unsigned n = batches.next();
    Batch& batch = batches.filling();
    if (batch.size() == 0) {
      keys[n].clear();
      values[n].clear();
      keys[n].reserve(batch_queries);  // queries point into it, so it must not move
      values[n].reserve(batch_queries);
      expected[n].clear();
    }
    const std::string& k = keys[n].emplace_back(std::move(key));
    const std::string& v = values[n].emplace_back(std::move(value));
    batch.next() = query_of(opcode, k, v);
    batch.commit();
    // The expected result: queries are executed in the order of the batches, and inside them.
    const auto at = model.find(k);
    switch (opcode) {
      case Opcode::get:
        expected[n].push_back(at != model.end() ? Expected{Status::hit, at->second} : Expected{Status::miss, {}});
        break;
      case Opcode::store:
        model[k] = v;
        expected[n].push_back({Status::stored, {}});
        break;
      case Opcode::remove:
        expected[n].push_back({at != model.end() ? Status::removed : Status::miss, {}});
        if (at != model.end()) model.erase(at);
        break;
      default:
        expected[n].push_back({Status::none, {}});
    }
    ++added;
    if (batch.full()) submit();
  }
  void submit() {
    if (batches.filling().size() == 0) return;
    batches.submit(plan);
  }
  void answer() {
    writer.expected = &expected[batches.oldest()];
    OneByOne(context).run(batches.begin_answer(), writer);
    batches.end_answer();
  }
  void finish() {
    if (batches.can_fill()) submit();
    while (batches.in_flight() != 0) answer();
    EXPECT_EQ(writer.answered, added);
  }

  // Random queries of `key_count` keys; `writes` per cent of them write.
  void run(std::mt19937_64& random, unsigned queries, unsigned key_count, unsigned writes) {
    for (unsigned i = 0; i < queries; ++i) {
      std::string key = "key" + std::to_string(random() % key_count);
      const std::uint64_t dice = random() % 100;
      if (dice >= writes) {
        add(Opcode::get, std::move(key));
      } else if (dice % 4 == 0) {
        add(Opcode::remove, std::move(key));
      } else {
        add(Opcode::store, std::move(key), std::string(random() % 100, 'v') + std::to_string(random()));
      }
    }
  }

  struct Part {
    Part(SchedulerRig& rig, Device& device, const SchedulerOptions& options, const ReplicaOptions& replicas)
        : replica(device, rig.index, rig.log, rig.epochs, replicas, &rig.heap), scheduler(device, replica, options) {}
    Replica replica;
    Scheduler scheduler;
  };

  ReplicaLog log;
  MemoryBudget budget;
  EpochDomain epochs;
  Clock clock;
  Heap heap;
  DirtyMap dirty;
  CuckooIndex index;
  IndexPlacement placement;
  Shared shared;
  Context context;
  std::vector<std::unique_ptr<Part>> parts;
  Replica& replica;      // of the first
  Scheduler& scheduler;  // likewise
  Schedulers schedulers;
  Runner batches;
  Plan plan;  // of all batches
  Comparing writer;
  std::vector<std::vector<std::string>> keys, values;
  std::vector<std::vector<Expected>> expected;
  std::map<std::string, std::string> model;
  std::uint64_t added = 0;

 private:
  std::vector<std::unique_ptr<Part>> make_parts(const std::vector<Device*>& devices, SchedulerOptions options,
                                                ReplicaOptions replicas) {
    if (options.steer && replicas.images.bytes != 0) {
      options.rewrites = &shared.rewrites;
      options.epochs = &epochs;
    }
    std::vector<std::unique_ptr<Part>> made;
    for (Device* device : devices) {
      replicas.shard = static_cast<std::uint32_t>(made.size());
      made.push_back(std::make_unique<Part>(*this, *device, options, replicas));
    }
    return made;
  }
  static std::vector<Scheduler*> all(const std::vector<std::unique_ptr<Part>>& parts) {
    std::vector<Scheduler*> schedulers;
    for (const auto& part : parts) schedulers.push_back(&part->scheduler);
    return schedulers;
  }
};

}  // namespace tandem
