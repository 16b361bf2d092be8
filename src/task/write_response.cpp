#include "task/write_response.hpp"

#include <algorithm>

#include "codec/small_hits.hpp"

namespace tandem::task {

// Most replies are to gets that found a small item; those of a strip are written together.
void write_response(const Batch& batch, Strip run, const codec::ReplyContext& context) {
  for (std::uint32_t i = run.begin; i < run.end;) {
    const Query& q = batch.query(i);
    const Result& r = batch.result(i);
    if (TD_LIKELY(codec::may_be_small_hit(q, r))) {
      const std::uint32_t end = std::min(run.end, i + strip_queries_max);
      const std::uint32_t next = codec::write_small_hits(batch, i, end, context.options.cas, context.out);
      if (TD_LIKELY(next != i)) {
        i = next;
        continue;
      }
    }
    ++i;
    codec::write_reply(q, r, context);
  }
}

}  // namespace tandem::task
