// The fast lane of the embedded store: plain gets and sets of a batch call, from the caller's requests to the caller's
// visitor, without queries and results between them. The stages behind the parser are the lane's (lane.hpp), and so is
// the order: each request takes effect when its turn comes.
//
// It takes gets whose key the store compares, and sets. At anything else it stops, as it does at an item that has
// expired, been flushed or is huge, and at a set for which no slot or no cell is at hand: it has done nothing of that
// request, and the general path goes on from there.
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

// Called with the replies to neighbouring requests, the first of which is number `first`.
using ReplyVisitor = void (*)(void* visitor, std::size_t first, std::span<const Reply> replies);

// One session's. Thread safety: one thread at a time, that of the context.
class CallLane {
 public:
  // Fewer requests are sooner answered one after the other.
  static constexpr std::size_t requests_min = 4;
  // Of an epoch: memory that others have retired waits for its end, and its second is that of its beginning.
  static constexpr std::size_t epoch_requests_max = 4096;

  // The context outlives it. instructions: as of Lane.
  explicit CallLane(Context& context, std::string_view instructions = {});
  ~CallLane();
  CallLane(const CallLane&) = delete;
  CallLane& operator=(const CallLane&) = delete;

  // As of Lane.
  bool may_run() const noexcept;

  // Answers requests from the first on, in epochs of at most epoch_requests_max, and returns how many: it ends before
  // one that it does not take, or when sets have retired so much memory that an epoch should end. first: the number of
  // requests[0] for the visitor. REQUIRES: may_run(), no epoch of the context's. The visitor must not throw or use the
  // store.
  std::size_t run(std::span<const Request> requests, std::size_t first, ReplyVisitor visit, void* visitor) noexcept;
  // The same for gets.
  std::size_t run(std::span<const std::string_view> keys, std::size_t first, ReplyVisitor visit,
                  void* visitor) noexcept;

 private:
  template <class Take>
  std::size_t run_in_epochs(std::size_t size, std::size_t first, ReplyVisitor visit, void* visitor, Take take) noexcept;
  std::size_t run(std::size_t first, ReplyVisitor visit, void* visitor) noexcept;

  Context& context_;
  const lane::Ops& ops_;
  std::unique_ptr<lane::CallState> state_;
};

}  // namespace tandem
