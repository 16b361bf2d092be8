#include "task/parse.hpp"

namespace tandem::task {

Parsed parse(TaskCounters& counters, Batch& batch, const Received& received, bool timed) {
  const std::uint64_t from = TD_UNLIKELY(timed) ? cycles_now() : 0;
  const std::uint32_t before = batch.size();
  Parsed parsed{};
  parsed.stop = received.parser.parse(received.begin, received.end, batch, received.connection, parsed.consumed);
  if (TD_UNLIKELY(timed)) {
    counters.cycles[index_of(Task::parse)].add(cycles_now() - from);
    counters.queries[index_of(Task::parse)].add(batch.size() - before);
  }
  return parsed;
}

}  // namespace tandem::task
