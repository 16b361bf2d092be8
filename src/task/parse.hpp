// PP appends the queries in a connection's or datagram's bytes to a batch. Runs outside epochs, before all other tasks
// of the batch, once for each input (DIDO III-A).
#pragma once
#include <cstddef>
#include <cstdint>

#include "codec/protocol.hpp"
#include "observe/task_counters.hpp"
#include "query/batch.hpp"

namespace tandem::task {

// Received bytes and their connection. The bytes stay in place until the batch is answered.
struct Received {
  Parser& parser;  // of that connection
  const char* begin;
  const char* end;
  std::uint32_t connection;  // Query::connection of the queries
};

struct Parsed {
  ParseStop stop;
  std::size_t consumed;  // bytes; the caller offers the rest again, as `stop` says
};

// Takes as many commands as are complete and fit the batch (Parser::parse()). `timed`: their number and the time spent
// on them are added to the counters. Thread safety: one thread at a time for the batch, the parser and the counters.
Parsed parse(TaskCounters& counters, Batch& batch, const Received& received, bool timed);

}  // namespace tandem::task
