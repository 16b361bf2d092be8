// How many items servers keep within a memory limit, and their resident memory then.
#pragma once
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/document.hpp"
#include "bench/compare/peers.hpp"

namespace tandem::bench {

struct ItemShape {
  std::uint32_t key_bytes, value_bytes;
  friend bool operator==(const ItemShape&, const ItemShape&) = default;
};

// "8/8,16/64". Throws std::invalid_argument with a message for users.
std::vector<ItemShape> parse_shapes(std::string_view text);

struct MemoryOptions {
  std::vector<Peer> peers;  // that support memcached's protocol
  std::vector<ItemShape> shapes{{8, 8}, {16, 64}, {32, 512}};
  std::uint64_t limit_mib = 1024;
  unsigned threads = 1;
  double start_timeout_s = 20;
  std::function<void(std::string_view)> log;  // may be empty
};

// A server ended, failed, or returned a wrong value.
class MemoryError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Adds a run of kind "memory" for each shape and server. New keys are stored until the server is full (or takes no
// more). "items" is the maximum it held, "resident_bytes" its memory after that, and "bytes_per_item" its growth since
// it was empty, per item: key, value and all overhead. The latest keys are then read and their values checked. Throws
// MemoryError, Interrupted; runs made so far are in the document.
void measure_memory(const MemoryOptions& options, Json& document);

// The runs of kind "memory" as a Markdown table: each server compared with the last, which is Tandem.
std::string memory_table(const Json& document);

}  // namespace tandem::bench
