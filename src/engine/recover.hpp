// Warm restart: restores a heap and its index from a memory file before the store serves.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/index_kinds.hpp"
#include "heap/recovery.hpp"

namespace tandem {

struct RestartReport {
  bool was_killed = false;  // else the previous process had closed the file
  std::uint64_t items = 0;  // recovered
  std::uint64_t expired = 0, damaged = 0,
                no_room = 0;  // dropped: expired or flushed; invalid; past the memory limit
  double seconds = 0;
};

// "1000 items in 0.001 s", and further details.
std::string describe(const RestartReport& report);

struct RecoverOptions {
  const IndexKindRow* kind;
  HeapRecovery::Rules rules;
  unsigned threads = 0;  // 0: one for each processor, at most 16
  // Receives the progress about once a second; nullptr: no reports.
  std::function<void(std::string_view)> log;
};

// Fills the heap and makes the index, large enough for the items found (and at least as large as `index_options` says,
// where there is room). Throws std::bad_alloc.
RestartReport recover(Heap& heap, std::unique_ptr<Index>& index, IndexOptions index_options, MemoryBudget& budget,
                      EpochDomain& epochs, const RecoverOptions& options);

}  // namespace tandem
