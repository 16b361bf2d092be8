// WR and SD as the pipeline sees them: the owner of the batch (a server worker, the embedded store) turns results into
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

  // WR: answers the strip's queries, in order. Called inside the batch's epoch: copies or pins the parts of the items
  // that it needs. May turn later queries of the batch into Opcode::nothing (a connection that must not continue), and
  // must then return false. False ends the batch's epoch, and the next query begins another. It is also returned after
  // a long operation, because retired memory waits for the epoch's end.
  virtual bool write(Batch& batch, Strip strip) = 0;
  // Executes and answers the control query i. Called between strips, outside any epoch.
  virtual void control(Batch& batch, std::uint32_t i) = 0;
};

}  // namespace tandem
