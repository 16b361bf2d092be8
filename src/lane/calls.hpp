// The lane of the embedded store: calls, single or in batches, from the caller's requests to the caller's visitor. The
// stages behind the parser are the lane's (lane.hpp), and so is the order: each request takes effect when its turn
// comes.
//
// Gets and sets have no queries and results between the two. Any other action, and an item that has expired, been
// flushed or is huge, is a row: in its turn the operation of the general path executes it. Where a request needs what
// can be had only outside an epoch (a slot, a cell), the epoch ends, and it is executed alone.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "heap/item_rewrite.hpp"
#include "tandem/store.hpp"
#include "task/context.hpp"

namespace tandem {

namespace lane {
struct CallState;
struct Ops;
}  // namespace lane

// Receives the replies to consecutive requests, the first of which is number `first`.
using ReplyVisitor = void (*)(void* visitor, std::size_t first, std::span<const Reply> replies);

// One per session. Thread safety: one thread at a time, that of the context.
class CallLane {
 public:
  // Bounds an epoch: retired memory of all threads waits for its end, and expiry is judged by the second it began in.
  static constexpr std::size_t epoch_requests_max = 4096;

  // REQUIRES: the context outlives the lane. instructions: as for Lane.
  explicit CallLane(Context& context, std::string_view instructions = {});
  ~CallLane();
  CallLane(const CallLane&) = delete;
  CallLane& operator=(const CallLane&) = delete;

  // Whether it has a use for what devices have found: the index is a table of two buckets a key.
  bool takes_found() const noexcept;

  // Answers the requests in order, in epochs of at most epoch_requests_max; one ends earlier when sets have retired so
  // much memory that it should, or a request needs what can be had only outside. first: the number of requests[0] for
  // the visitor. May wait briefly for other threads' epochs. REQUIRES: the context is in no epoch, and the
  // visitor neither throws nor uses the store.
  //
  // found: what devices have found for the first of the requests. REQUIRES: takes_found(). Where they alone have the
  // index and it is discarded before the end, the rest is not answered; without it they are asked and waited for, a
  // piece after the other. Returns how many were answered.
  std::size_t run(std::span<const Request> requests, std::size_t first, ReplyVisitor visit, void* visitor,
                  const Batch* found = nullptr) noexcept;
  // The same for gets.
  std::size_t run(std::span<const std::string_view> keys, KeyCheck check, std::size_t first, ReplyVisitor visit,
                  void* visitor, const Batch* found = nullptr) noexcept;

 private:
  template <class Take, class Run>
  std::size_t run_in_epochs(std::size_t size, std::size_t first, const Batch* found, Take take, Run run) noexcept;
  template <class Run>
  void run_epoch(Run run) noexcept;
  bool are_hot(std::size_t count) noexcept;
  std::size_t look_at_found(const Batch* found, std::size_t done, std::size_t count) noexcept;
  std::size_t ask(std::size_t count) noexcept;
  void run_alone(std::size_t number, std::size_t first) noexcept;

  Context& context_;
  const lane::Ops& ops_;
  std::unique_ptr<lane::CallState> state_;
};

}  // namespace tandem
