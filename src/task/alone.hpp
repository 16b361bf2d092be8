// A query that is executed alone: it needs what can be had only outside an epoch (a slot, a cell), or its caller has
// nothing else to do.
//
// Thread safety: the context's thread.
#pragma once
#include "query/batch.hpp"
#include "task/context.hpp"

namespace tandem::task {

// Called when the query has its result, in the epoch in which it was executed. May throw std::bad_alloc.
class Answer {
 public:
  virtual void answer() = 0;

 protected:
  ~Answer() = default;
};

// Executes the batch's only query, which is not a control query, in an epoch of its own, after MM, which may evict and
// wait. Where devices alone have the index, they are asked and waited for. REQUIRES: no epoch. Throws what `answer`
// does.
void execute_alone(Context& context, Batch& batch, Answer& answer);

// The same; `answer` is called without arguments.
template <class F>
void execute_alone(Context& context, Batch& batch, F answer) {
  struct Calls final : Answer {
    explicit Calls(F& f) noexcept : f_(f) {}
    void answer() override { f_(); }

   private:
    F& f_;
  };
  Calls calls(answer);
  execute_alone(context, batch, static_cast<Answer&>(calls));
}

}  // namespace tandem::task
