// The fast lane of the embedded store: plain gets and sets of a batch call, from the caller's requests to the caller's
// visitor, without queries and results between them. The stages behind the parser are the lane's (lane.hpp), and so is
// the order: each request takes effect when its turn comes.
//
// It takes gets with a key that the store compares, and sets. It stops at any other request, at an item that has
// expired, been flushed or is huge, and at a set for which no slot or no cell is at hand. Nothing of that request has
// been done then, and the general path continues with it.
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

  // Whether the lane takes a request of this form.
  static bool takes(const Request& request) noexcept {
    return request.action == Action::get ? request.key_check == KeyCheck::store : request.action == Action::set;
  }
  static bool takes(std::string_view) noexcept { return true; }

  // As Lane::may_run().
  bool may_run() const noexcept;

  // Answers requests from the first on, in epochs of at most epoch_requests_max, and returns their number. Ends before
  // a request that the lane does not take, and when sets have retired so much memory that an epoch should end. first:
  // the number of requests[0] for the visitor. REQUIRES: may_run(), the context is in no epoch, and the visitor neither
  // throws nor uses the store.
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
