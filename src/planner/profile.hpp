// What a load is like: all that the cost model reads of it. Plain data.
#pragma once
#include <cstdint>

namespace tandem {

struct Profile {
  double set_share = 0;    // of the queries
  double query_bytes = 0;  // of a query's request and reply together
  double theta = 0;        // of the keys' popularity, zipf; 0: uniform
  double keys = 0;         // in the store
  double store_bytes = 0;  // of the store's items and index
};

}  // namespace tandem
