// What the tasks of one strip hand to each other beside the batch's columns.
#pragma once
#include <cstdint>

#include "query/batch.hpp"

namespace tandem {

struct StripState {
  Strip strip{};
  std::uint32_t now_s = 0;
  std::uint64_t flush_cas = 0;
  std::uint32_t left = 0;        // queries that search() left to search_rest(): bit i is the strip's query i
  bool refuse_first = false;     // there is no room for the first query's write: it is answered out_of_memory
  bool plain_reads = true;       // only gets that change nothing: KC may run as one tight loop
  std::uint64_t need_bytes = 0;  // what the query needs for which MM has found no slot
  // Per query of the strip: the slot that MM prepared for what the query will write; no_location when it writes nothing
  // or none could be had.
  Location slot[strip_queries_max];
  Status
      refused[strip_queries_max];  // why MM prepared none although one is needed: too_large, out_of_memory; else none
  Location
      fill[strip_queries_max];  // append, prepend: the slot that the large value was received into, to be given back
  // Items that the strip's writes displaced: retired together when the strip ends.
  std::uint32_t displaced_count = 0;
  Location displaced[strip_queries_max];

  // With probation: the items that the strip's writes made.
  struct Published {
    Fingerprint fingerprint;
    Location location;
    bool is_new_key;
  };
  std::uint32_t published_count = 0;
  Published published[strip_queries_max];

  // Whether a query of the strip had a hit so far: its value is copied when the strip is answered.
  bool has_hits = false;

  std::uint32_t at(std::uint32_t query) const noexcept { return query - strip.begin; }
};

}  // namespace tandem
