// Runs MM, IN, KC, RD and WR over a batch, strip by strip (DIDO III-A): the whole pipeline of a server without an
// accelerator, and the remaining tasks of a batch that a device has searched (Batch::found).
#pragma once
#include "index/index_kind.hpp"
#include "query/batch.hpp"
#include "task/context.hpp"
#include "task/response_writer.hpp"
#include "task/strip_state.hpp"
#include "task/timer.hpp"

namespace tandem {

class Executor {
 public:
  explicit Executor(Context& context) noexcept : context_(context) {}
  // Executes every query of the batch in order and passes each to the writer. The batch's keys and values may be
  // released afterwards. Never blocks on I/O; may wait briefly (yielding) for other workers' epochs when slots run out.
  void run(Batch& batch, ResponseWriter& writer);
  // The same for a known kind of index (executor-inl.hpp). REQUIRES: the store's index is of this kind.
  template <IndexKind I>
  void run_as(Batch& batch, ResponseWriter& writer);

 private:
  // Runs strips from `begin` on in one epoch, and returns where it stopped. That is the end of the batch, a control
  // query, or a query that needs what is available only outside an epoch (`begin` itself at the worst). Or the epoch
  // should end, since the writer says so or much memory waits for it.
  template <IndexKind I>
  std::uint32_t run_strips(Batch& batch, std::uint32_t begin, ResponseWriter& writer, TaskTimer& timer);
  template <IndexKind I>
  std::uint32_t run_strip(Batch& batch, std::uint32_t begin, ResponseWriter& writer, TaskTimer& timer);
  std::uint32_t end_epoch(const Batch& batch, std::uint32_t begin, std::uint32_t end, bool needs_room) noexcept;
  std::uint32_t start_over(Batch& batch, StripState& state) noexcept;
  // Called when a write found no cell in the index. REQUIRES: no epoch.
  void make_room(const Batch& batch, std::uint32_t i) noexcept;
  void count_device(const Batch& batch, Strip answered) noexcept;

  Context& context_;
  std::uint64_t stored_at_check_ = 0;
  bool refuses_next_ = false;  // the next query is answered out_of_memory: it cannot get a slot, or a cell
};

extern const KindCode cuckoo_code, set_associative_code, hash_tree_code, slab_list_code;

}  // namespace tandem
