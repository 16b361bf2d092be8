// An answer in pieces: the worker asks for one once a pass, and only while the client's socket takes them. Input
// behind the command waits until the stream is done.
//
// Thread safety: the connection's worker.
#pragma once
#include <cstdint>

#include "codec/output.hpp"
#include "task/context.hpp"

namespace tandem::net {

class Stream {
 public:
  enum class Step : std::uint8_t {
    more,  // there is more at once
    wait,  // nothing until the worker is woken
    done,
  };
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;  // releases what it holds, at the end or before

  // Appends the next piece: of stream_piece_bytes or little more, after looking at stream_piece_slots slots at most.
  // REQUIRES: the context is in no epoch.
  virtual Step produce(Context& context, Output& out) = 0;
  // Whether it ends when the client closes its sending side.
  virtual bool ends_with_client() const noexcept { return false; }
};

}  // namespace tandem::net
