// WR and SD as the pipeline sees them: whoever owns the batch (a server worker, the embedded store) turns results into
// bytes.
#pragma once
#include "query/batch.hpp"

namespace tandem {

class ResponseWriter {
 public:
  ResponseWriter() = default;
  ResponseWriter(const ResponseWriter&) = delete;
  ResponseWriter& operator=(const ResponseWriter&) = delete;
  virtual ~ResponseWriter() = default;

  // WR: answers the strip's queries, in order. Called inside the batch's epoch: copies (or pins) whatever it needs of
  // the items. May turn later queries of the batch into Opcode::nothing (a connection that must not go on), and must
  // then return false. False ends the batch's epoch here, and another one begins with the next query: also wanted after
  // whatever took long, since memory that is freed during an epoch waits for its end.
  virtual bool write(Batch& batch, Strip strip) = 0;
  // Executes and answers the control query i. Called between strips, outside any epoch.
  virtual void control(Batch& batch, std::uint32_t i) = 0;
};

}  // namespace tandem
