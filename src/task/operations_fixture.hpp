// For tests of operations: each batch of a small store is executed in order.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "task/one_by_one.hpp"
#include "task/store_fixture.hpp"

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

class OperationsTest : public SmallStore {
 protected:
  explicit OperationsTest(std::uint64_t memory_bytes = std::uint64_t{32} << 20, StorePolicy policy = {},
                          std::uint64_t cells = 1 << 14)
      : SmallStore({.policy = policy, .memory_bytes = memory_bytes, .cells = cells, .batch_queries = 1024}) {}

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
    clear();
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

  OneByOne runs_{context_};
};

}  // namespace tandem
