// Rows: commands in a strip that have no plain form. The parser makes queries of them, which are executed and answered
// in their turn by the operations of the general path.
#pragma once
#include <cstdint>

#include "query/batch.hpp"

namespace tandem::lane {

struct Rows {
  explicit Rows(std::uint32_t places) : batch(places) {}

  // By the queries' places in the ring: strip * strip_queries + query. What the parser derives lasts until the run
  // ends.
  Batch batch;
  Batch taken{1};                  // Lane::taken()
  const char* last_end = nullptr;  // of the last row's command, or key

  void end_run() noexcept {
    batch.clear();
    last_end = nullptr;
  }
};

}  // namespace tandem::lane
