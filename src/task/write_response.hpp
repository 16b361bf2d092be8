// WR writes the replies to a run of queries, in order. Runs inside the batch's epoch: values are copied, or pinned if
// they are large. The ResponseWriter decides where and when the replies are sent.
#pragma once
#include "codec/reply_writer.hpp"
#include "query/batch.hpp"

namespace tandem::task {

// Appends the replies to the run's queries to the context's output; control queries are answered elsewhere
// (execute_control()). Values of more than copied_value_bytes_max bytes are pinned, and the output's owner unpins
// them. Throws std::bad_alloc. Thread safety: one thread at a time for the batch and the output.
void write_response(const Batch& batch, Strip run, const codec::ReplyContext& context);

}  // namespace tandem::task
