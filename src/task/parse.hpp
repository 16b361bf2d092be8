// PP: the bytes that a connection or a datagram sent, to queries at the end of a batch. Runs outside epochs, before all
// other tasks of the batch, as often as input comes; every other task waits for none of it (DIDO III-A).
#pragma once
#include <cstddef>
#include <cstdint>

#include "codec/protocol.hpp"
#include "observe/task_counters.hpp"
#include "query/batch.hpp"

namespace tandem::task {

// Bytes that came, and what is known of who sent them. The bytes stay where they are until the batch is answered.
struct Received {
  Parser& parser;  // of that connection
  const char* begin;
  const char* end;
  std::uint32_t connection;  // Query::connection of the queries
};

struct Parsed {
  ParseStop stop;
  std::size_t consumed;  // bytes: what follows is to be offered again, as `stop` says
};

// Takes as many commands as are complete and fit the batch (Parser::parse()). `timed`: their number and the time spent
// on them are added to the counters. Thread safety: one thread at a time for the batch, the parser and the counters.
Parsed parse(TaskCounters& counters, Batch& batch, const Received& received, bool timed);

}  // namespace tandem::task
