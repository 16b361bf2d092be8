// State that the tasks of one strip pass to each other beside the batch's columns.
#pragma once
#include <cstdint>

#include "query/batch.hpp"

namespace tandem {

struct StripState {
  Strip strip{};
  std::uint32_t now_s = 0;
  std::uint64_t flush_cas = 0;
  std::uint32_t left = 0;                 // queries left to search_rest(): bit i is the strip's query i
  bool refuse_first = false;              // the first query's write has no room and is answered out_of_memory
  bool plain_reads = true;                // only gets that change nothing: KC may run as one tight loop
  bool is_prepared = false;               // of task::execute(): MM has run, outside the epoch
  std::uint64_t need_bytes = 0;           // size of the item for which MM has found no slot
  const void* places[strip_queries_max];  // of an index that searches by key (SearchesByKey)
  // Per query of the strip: the slot that MM prepared for the item it will write; no_location: none needed or
  // available.
  Location slot[strip_queries_max];
  Status refused[strip_queries_max];  // why a needed slot is missing: too_large, out_of_memory; else none
  Location fill[strip_queries_max];   // append, prepend: the slot of the received large value, to be released
  // Whether a query of the strip had a hit so far: its value is copied when the strip is answered.
  bool has_hits = false;
  // Of these keys (bit: key_bit()) an item answered: an image, which is older than what is copied then, must not answer
  // behind it.
  std::uint64_t read_items = 0;

  std::uint32_t at(std::uint32_t query) const noexcept { return query - strip.begin; }
};

}  // namespace tandem
