// The CPU plan: runs MM, IN, KC, RD and WR over a batch, strip by strip (DIDO III-A; the whole pipeline of a server without an accelerator).
#pragma once
#include "query/batch.hpp"
#include "task/context.hpp"
#include "task/write_response.hpp"

namespace tandem {

class Executor {
 public:
  explicit Executor(Context& context) noexcept : context_(context) {}
  // Executes every query of the batch in order and has each answered by the writer. The batch's keys and values may be released afterwards.
  // Never blocks on I/O; may wait briefly (yielding) for other workers' epochs when slots run out.
  void run(Batch& batch, ResponseWriter& writer);

 private:
  Context& context_;
};

}  // namespace tandem
