// Brings a heap and its index back from a memory file: what a warm restart does before the store serves.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "heap/recovery.hpp"
#include "store/index_kinds.hpp"

namespace tandem {

struct RestartReport {
  bool was_killed = false;  // else the process before had closed the file
  std::uint64_t items = 0;  // recovered
  std::uint64_t expired = 0, damaged = 0,
                no_room = 0;  // dropped: expired or flushed; impossible; past the memory limit
  double seconds = 0;
};

// "1000 items in 0.001 s", and what else there is to say.
std::string describe(const RestartReport& report);

struct RecoverOptions {
  const IndexKindRow* kind;
  HeapRecovery::Rules rules;
  unsigned threads = 0;  // 0: one for each processor, at most 16
  // Told about once a second how far it is; nullptr: nobody.
  std::function<void(std::string_view)> log;
};

// Fills the heap and makes the index, as large as it has to be for the items found (and at least as large as
// `index_options` says, where there is room). Throws std::bad_alloc.
RestartReport recover(Heap& heap, std::unique_ptr<Index>& index, IndexOptions index_options, MemoryBudget& budget,
                      EpochDomain& epochs, const RecoverOptions& options);

}  // namespace tandem
