// State of a run over an embedding program's requests.
#pragma once
#include "lane/calls.hpp"
#include "lane/state.hpp"

namespace tandem::lane {

struct CallState : State {
  explicit CallState(Context& c) noexcept : State(c, no_options) {}

  // Input of a run: one of the two is empty.
  std::span<const Request> requests;
  std::span<const std::string_view> keys;
  std::size_t size() const noexcept { return requests.empty() ? keys.size() : requests.size(); }
  std::size_t taken = 0;     // requests placed in strips
  std::size_t answered = 0;  // requests with visited replies
  bool stopped = false;      // the lane does not take the next request
  std::size_t first = 0;
  ReplyVisitor visit = nullptr;
  void* visitor = nullptr;

  Reply replies[strip_queries];
  // Keys and values of hits, copied because a set may rewrite an item in place while its value is visited.
  static constexpr std::size_t copy_bytes = key_bytes_max + rewritten_value_bytes_max;
  alignas(cache_line_bytes) char copies[strip_queries][copy_bytes + cache_line_bytes];

 private:
  static const ProtocolOptions no_options;  // calls have no protocol
};

}  // namespace tandem::lane
