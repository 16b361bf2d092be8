// Walks over the heap for a client: metadump, mgdump, stats cachedump and stats sizes. Items are read in epochs of one
// piece each, without a lock. An item that stays live, and is not rewritten meanwhile, is seen once. Expired and
// flushed items are left out.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "codec/admin.hpp"
#include "worker/stream.hpp"

namespace tandem::net {

// One metadump or mgdump runs at a time, as in memcached; but a dump that its client has not read for dump_stall_s does
// not block the next one.
class DumpPlace {
 public:
  static constexpr std::uint32_t dump_stall_s = 5;

  // False: another dump is running.
  bool take(const void* dump, std::uint32_t now_s) noexcept;
  void progress(const void* dump, std::uint32_t now_s) noexcept;
  void leave(const void* dump) noexcept;

 private:
  std::atomic<const void*> dump_{nullptr};
  std::atomic<std::uint32_t> progress_s_{0};
};

class HeapWalk : public Stream {
 public:
  Step produce(Context& context, Output& out) final;

 protected:
  explicit HeapWalk(const StreamRequest::Classes& classes) noexcept : classes_(classes) {}
  // A live item that is neither expired nor flushed.
  virtual void item(const Context& context, Location l, const Item* item, const ItemVersion& seen, Output& out) = 0;
  // All were shown, or enough() was true.
  virtual void end(Output& out) = 0;
  virtual bool enough() const noexcept { return false; }
  virtual void begin_piece(const Context&) {}

 private:
  const StreamRequest::Classes classes_;
  PageId page_ = 1;
  std::uint32_t slot_ = 0;
};

// nullptr: another dump is running. REQUIRES: the request is for one of the above.
std::unique_ptr<Stream> make_dump(const StreamRequest& request, DumpPlace& place, std::uint32_t now_s);

}  // namespace tandem::net
