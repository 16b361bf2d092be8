// A walk of the lane's parser over the input of a run, ahead of it, for the keys that devices search for.
#pragma once
#include "codec/protocol.hpp"
#include "lane/state.hpp"

namespace tandem::lane {

// Where a query begins, and what its parser needs to begin with it again.
struct QueryBegin {
  Query query{};
  const char* command = nullptr;  // of a query that begins a plain command; else nullptr
  const char* rewind(Parser& parser) const noexcept {
    if (TD_UNLIKELY(command == nullptr)) return parser.rewind(query);
    parser.rewind_to_command();
    return command;
  }
};
TD_NOINLINE QueryBegin begin_of(const State& state, const Strip& strip, std::uint32_t i) noexcept;

// Receives the keys of a walk (Lane::collect()).
class Collected {
 public:
  explicit Collected(Batch& batch) noexcept : batch_(batch) {}
  // Adds those of a strip. False: the batch is full, and the walk ends.
  bool add(State& state, const Strip& strip) noexcept;
  // All parsers begin with their segments' first query again.
  void end(State& state) noexcept;

 private:
  void leave(State& state) noexcept;

  Batch& batch_;
  std::uint32_t segment_ = ~std::uint32_t{0};  // of the last query
  QueryBegin begin_;                           // of that segment's first query
};
// Stops query i's segment before that query.
TD_NOINLINE void stop(State& state, const Strip& strip, std::uint32_t i) noexcept;

}  // namespace tandem::lane
