// What the tasks of one query pass to each other beside the batch's columns.
#pragma once
#include <cstdint>

#include "query/batch.hpp"

namespace tandem {

struct QueryState {
  std::uint32_t query = 0;  // its number in the batch
  std::uint32_t now_s = 0;
  std::uint64_t flush_cas = 0;
  bool refuses = false;           // its write has no room and is answered out_of_memory
  bool plain_read = true;         // a get that changes nothing
  bool is_prepared = false;       // of task::execute(): MM has run, outside the epoch
  Status refused = Status::none;  // why a needed slot is missing: too_large, out_of_memory; else none
  Location slot = no_location;    // that MM prepared for the item it will write; no_location: none needed or available
  Location fill = no_location;    // append, prepend: the slot of the received large value, to be released
};

}  // namespace tandem
