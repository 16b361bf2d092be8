// A linearizability checker for one key (Wing and Gong's search with Lowe's memo of visited configurations), and the
// register that it checks against. Histories come in rounds: between two rounds all clients stand still, so a round
// begins in one of the states that the last one may have ended in.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tandem::test {

enum class Kind : std::uint8_t { get, set, add, replace, compare_and_set, remove, increment };

// One operation with what it answered. Times are any monotonic counter. States are numbers; 0 is "no item".
struct Event {
  Kind kind;
  std::uint64_t argument = 0;  // set, add, replace, compare_and_set: the new state. increment: the delta
  std::uint64_t expected = 0;  // compare_and_set: the state that its CAS id stands for
  std::uint64_t result = 0;    // get, increment: the state answered. else: 1 it was done, 0 it was not
  std::uint64_t invoked = 0, answered = 0;
  std::uint32_t client = 0;  // operations of one client with overlapping times take effect in the order of `number`
  std::uint32_t number = 0;
};

// The state after the event if it is possible in `state`.
inline std::optional<std::uint64_t> apply(const Event& e, std::uint64_t state) {
  const auto done_if = [&](bool can, std::uint64_t next) -> std::optional<std::uint64_t> {
    if ((e.result != 0) != can) return std::nullopt;
    return can ? next : state;
  };
  switch (e.kind) {
    case Kind::get:
      return e.result == state ? std::optional(state) : std::nullopt;
    case Kind::set:
      return done_if(true, e.argument);
    case Kind::add:
      return done_if(state == 0, e.argument);
    case Kind::replace:
      return done_if(state != 0, e.argument);
    case Kind::compare_and_set:
      return done_if(state != 0 && state == e.expected, e.argument);
    case Kind::remove:
      return done_if(state != 0, 0);
    case Kind::increment:
      if (state == 0) return e.result == 0 ? std::optional(state) : std::nullopt;
      return e.result == state + e.argument ? std::optional(e.result) : std::nullopt;
  }
  return std::nullopt;
}

// All states that the round may end in, from any of `initial`; empty: the history is not linearizable. At most 64
// events.
class RoundChecker {
 public:
  explicit RoundChecker(std::vector<Event> events) : events_(std::move(events)), before_(events_.size()) {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      for (std::size_t j = 0; j < events_.size(); ++j) {
        const Event &a = events_[j], &b = events_[i];
        const bool program_order = a.client == b.client && a.number < b.number;
        if (i != j && (a.answered < b.invoked || program_order)) before_[i] |= std::uint64_t{1} << j;
      }
    }
  }
  std::set<std::uint64_t> final_states(const std::set<std::uint64_t>& initial) {
    final_.clear();
    seen_.clear();
    for (const std::uint64_t state : initial) search(0, state);
    return final_;
  }

 private:
  void search(std::uint64_t done, std::uint64_t state) {
    if (!seen_.insert((done * 0x9E3779B97F4A7C15ull) ^ (state + 0x7F4A7C15ull) * 0xBF58476D1CE4E5B9ull).second) return;
    bool all = true;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const std::uint64_t bit = std::uint64_t{1} << i;
      if ((done & bit) != 0) continue;
      all = false;
      if ((before_[i] & ~done) != 0) continue;
      if (const auto next = apply(events_[i], state)) search(done | bit, *next);
    }
    if (all) final_.insert(state);
  }

  std::vector<Event> events_;
  std::vector<std::uint64_t> before_;  // bit j of before_[i]: event j takes effect before event i
  std::unordered_set<std::uint64_t> seen_;
  std::set<std::uint64_t> final_;
};

}  // namespace tandem::test
