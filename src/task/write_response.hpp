// WR: results of a run of queries, in order, to the bytes of their replies. Runs inside the batch's epoch: values are
// copied, or pinned if they are large. Who gets them, and when they are sent, is the ResponseWriter's to know.
#pragma once
#include "codec/reply_writer.hpp"
#include "query/batch.hpp"

namespace tandem::task {

// Appends the replies to the run's queries to the context's output; control queries are answered elsewhere
// (execute_control()). Values of more than copied_value_bytes_max bytes are pinned, and whoever owns the output unpins
// them. Throws std::bad_alloc. Thread safety: one thread at a time for the batch and the output.
void write_response(const Batch& batch, Strip run, const codec::ReplyContext& context);

}  // namespace tandem::task
