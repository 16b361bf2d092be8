// What a run over an embedding program's requests works on, beside what the lane's runs do.
#pragma once
#include "lane/calls.hpp"
#include "lane/state.hpp"

namespace tandem::lane {

struct CallState : State {
  explicit CallState(Context& c) noexcept : State(c, no_options) {}

  // Of a run: one of the two is empty.
  std::span<const Request> requests;
  std::span<const std::string_view> keys;
  std::size_t size() const noexcept { return requests.empty() ? keys.size() : requests.size(); }
  std::size_t taken = 0;     // into strips
  std::size_t answered = 0;  // and visited
  bool stopped = false;      // before the request that follows those
  std::size_t first = 0;
  ReplyVisitor visit = nullptr;
  void* visitor = nullptr;

  Reply replies[strip_queries];
  // Values, with their keys before them: a set may rewrite an item while its value is visited.
  static constexpr std::size_t copy_bytes = key_bytes_max + rewritten_value_bytes_max;
  alignas(cache_line_bytes) char copies[strip_queries][copy_bytes + cache_line_bytes];

 private:
  static const ProtocolOptions no_options;  // of a protocol, which there is none of
};

}  // namespace tandem::lane
