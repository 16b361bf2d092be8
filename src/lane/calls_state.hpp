// State of a run over an embedding program's requests.
#pragma once
#include "lane/call_query.hpp"
#include "lane/calls.hpp"
#include "lane/state.hpp"
#include "query/batch.hpp"

namespace tandem::lane {

struct CallState : State {
  explicit CallState(Context& c) noexcept : State(c, no_options) { item_bytes_max = c.shared.policy.item_bytes_max; }

  // Input of a run: one of the two is empty.
  std::span<const Request> requests;
  std::span<const std::string_view> keys;
  std::uint8_t key_kind = kind::get;  // of the keys
  // Calls f with request `number`.
  template <class F>
  void with_request(std::size_t number, F f) const noexcept {
    if (TD_LIKELY(!requests.empty())) return f(requests[number]);
    f(Request{.key = keys[number], .key_check = key_kind == kind::get ? KeyCheck::store : KeyCheck::caller});
  }
  // What devices have found for them (State::found), from this place of the batch on; nullptr: nothing, but what they
  // are asked for requests of which nothing is known.
  std::uint32_t found_at = 0;
  std::size_t answered = 0;    // requests with visited replies
  bool stopped = false;        // the next request needs what can be had only outside an epoch
  std::uint64_t rows_run = 0;  // of the answered ones, those that were rows
  std::size_t first = 0;
  ReplyVisitor visit = nullptr;
  void* visitor = nullptr;

  Reply replies[strip_queries];
  // Keys and values of hits, copied because a set may rewrite an item in place while its value is visited.
  alignas(cache_line_bytes) char copies[strip_queries][copied_bytes_max + cache_line_bytes];

  Batch row{1};  // the request without a plain form that is executed

 private:
  static const ProtocolOptions no_options;  // calls have no protocol
};

// As sample_hot(), of the requests that were answered. REQUIRES: inside the epoch, devices alone have the index.
TD_NOINLINE void sample_hot_call(CallState& state) noexcept;
// Executes request `number`, the strip's query i, by the general path, and fills its reply. False: it needs what can be
// had only outside an epoch, and nothing has changed.
TD_NOINLINE bool answer_call_as_row(CallState& state, const Strip& strip, std::uint32_t i, std::size_t number) noexcept;

}  // namespace tandem::lane
