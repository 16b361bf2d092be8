// For tests: executes the queries of a batch in order, each in an epoch of its own, with the candidate that a device
// has found, or alone. No strips, no lane: what these do is compared with it.
//
// Thread safety: the context's thread.
#pragma once
#include "query/batch.hpp"
#include "task/alone.hpp"
#include "task/context.hpp"
#include "task/memory.hpp"
#include "task/settled.hpp"

namespace tandem {

// Receives results in the batch's order.
class ResultSink {
 public:
  virtual ~ResultSink() = default;
  // Query i has its result, in the epoch in which it was executed.
  virtual void write(Batch& batch, std::uint32_t i) = 0;
  // Outside epochs: query i is a control query.
  virtual void control(Batch& /*batch*/, std::uint32_t /*i*/) {}
};

class OneByOne {
 public:
  explicit OneByOne(Context& context) noexcept : context_(context) {}

  void run(Batch& batch, ResultSink& sink) {
    for (std::uint32_t i = 0; i < batch.size(); ++i) {
      if (batch.query(i).opcode == Opcode::control) {
        context_.let_go();
        sink.control(batch, i);
      } else if (!execute_found(batch, i, sink)) {
        execute_alone(batch, i, sink);
      }
    }
    if (context_.remote != nullptr) context_.remote->end();
    context_.shared.placement.reclaim_changes(context_.cache);
  }

 private:
  // False: no device has searched for it, or it needs what can be had only outside an epoch.
  bool execute_found(Batch& batch, std::uint32_t i, ResultSink& sink) {
    if (!batch.searched_at(i)) return false;
    context_.enter();
    QueryState one;
    bool is_done = false;
    if (batch.searched_at(i)) {
      one.query = i;
      one.now_s = context_.shared.clock.now_s();
      one.flush_cas = context_.shared.flush_cas.load(std::memory_order_acquire);
      one.plain_read = batch.query(i).is_plain_read();
      is_done = context_.shared.code.execute(context_, batch, one) == task::Settled::done;
    }
    if (is_done) {
      for (const Stage& stage : batch.plan.stages()) {
        for (std::size_t t = index_of(stage.first); stage.processor == Processor::device && t <= index_of(stage.last);
             ++t)
          context_.tasks.on_device[t].add();
      }
      context_.tasks.queries_total.add();
      sink.write(batch, i);
      task::release_slots(context_, one);
      context_.retire_displaced();
    }
    context_.epoch.exit();
    return is_done;
  }

  void execute_alone(Batch& batch, std::uint32_t i, ResultSink& sink) {
    one_.query(0) = batch.query(i);
    one_.filled()[0] = batch.filled()[i];
    one_.resize(1);
    task::execute_alone(context_, one_, [&] {
      batch.result(i) = one_.result(0);
      sink.write(batch, i);
    });
    one_.clear();
  }

  Context& context_;
  Batch one_{1};
};

}  // namespace tandem
