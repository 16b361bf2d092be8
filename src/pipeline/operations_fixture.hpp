// A very small store, for the tests of operations.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "index/cuckoo/cuckoo_index.hpp"
#include "task/codes.hpp"
#include "task/memory.hpp"
#include "task/one_by_one.hpp"

namespace tandem {

// A query's result, copied while the item was readable.
struct Answer {
  Status status = Status::none;
  std::string key, value;  // the item's
  std::uint64_t number = 0, cas = 0, state = 0;
  std::uint32_t flags = 0;
  std::uint8_t outcome = 0;
};

struct Recorder final : ResultSink {
  void write(Batch& batch, std::uint32_t i) override {
    const Result& r = batch.result(i);
    Answer a;
    a.status = r.status;
    a.number = r.number;
    a.state = r.state;
    a.outcome = r.outcome;
    if (r.status == Status::number) a.cas = r.cas;
    if (r.status == Status::hit) {
      a.key = r.item->key();
      a.value.assign(r.item->value(), r.value_bytes);
      a.flags = r.item->client_flags();
      a.cas = r.item->cas(r.state);
    }
    EXPECT_EQ(answers.size(), i) << "answered out of order";
    answers.push_back(a);
  }
  void control(Batch&, std::uint32_t i) override {
    EXPECT_EQ(answers.size(), i);
    answers.emplace_back();
    if (on_control) on_control();
  }
  std::vector<Answer> answers;
  std::function<void()> on_control;
};

class OperationsTest : public testing::Test {
 protected:
  explicit OperationsTest(std::uint64_t memory_bytes = std::uint64_t{32} << 20, StorePolicy policy = {},
                          std::uint64_t cells = 1 << 14)
      : budget_(memory_bytes),
        epochs_(8),
        heap_({.item_bytes_max = policy.item_bytes_max, .huge_pages = false}, budget_, epochs_),
        index_({.cells_initial = cells, .hash_seed = 7, .huge_pages = false}, budget_, epochs_, heap_),
        placement_(index_, heap_),
        shared_{.heap = heap_,
                .index = index_,
                .code = cuckoo_code,
                .placement = placement_,
                .epochs = epochs_,
                .clock = clock_,
                .policy = policy,
                .hash_seed = 7},
        context_(shared_),
        runs_(context_) {
    clock_.freeze_for_test(1000);
    shared_.growth_refused = true;  // no thread runs maintenance here: a full index evicts
  }

  Query& add(Opcode opcode, std::string_view key, std::string_view value = {}, std::uint16_t options = 0) {
    const std::string& k = texts_.emplace_back(key);
    const std::string& v = texts_.emplace_back(value);
    Query& q = batch_.next();
    q = {};
    q.key = k.data();
    q.key_bytes = static_cast<std::uint8_t>(k.size());
    q.value = v.data();
    q.value_bytes = static_cast<std::uint32_t>(v.size());
    q.opcode = opcode;
    q.options = options;
    q.delta = 1;
    batch_.commit();
    return q;
  }
  Query& store(std::string_view key, std::string_view value, StoreMode mode = StoreMode::set,
               std::uint16_t options = 0) {
    Query& q = add(Opcode::store, key, value, options);
    q.mode = mode;
    return q;
  }
  std::vector<Answer> run() {
    Recorder recorder;
    runs_.run(batch_, recorder);
    EXPECT_EQ(recorder.answers.size(), batch_.size());
    EXPECT_FALSE(context_.epoch.active());
    batch_.clear();
    texts_.clear();
    return recorder.answers;
  }
  Answer one() { return run().at(0); }
  Answer get(std::string_view key, std::uint16_t options = 0) {
    add(Opcode::get, key, {}, options);
    return one();
  }
  void set(std::string_view key, std::string_view value) {
    store(key, value);
    ASSERT_EQ(one().status, Status::stored);
  }

  MemoryBudget budget_;
  EpochDomain epochs_;
  Clock clock_;
  Heap heap_;
  CuckooIndex index_;
  IndexPlacement placement_;
  Shared shared_;
  Context context_;
  OneByOne runs_;
  Batch batch_{1024};
  std::deque<std::string> texts_;
};

}  // namespace tandem
