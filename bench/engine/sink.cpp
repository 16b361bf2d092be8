#include "bench/engine/sink.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <stdexcept>

namespace tandem::bench {

std::string_view to_string(SinkKind kind) noexcept { return kind == SinkKind::copy ? "copy" : "lend"; }

SinkKind parse_sink(std::string_view name) {
  for (const SinkKind kind : {SinkKind::copy, SinkKind::lend}) {
    if (name == to_string(kind)) return kind;
  }
  throw std::invalid_argument(fmt::format("unknown sink \"{}\"; there are: copy, lend", name));
}

void ReplySink::grow(std::size_t clients) {
  put_.resize(clients);
  if (!copies_) return;
  ring_bytes_ = std::clamp(std::bit_floor(rings_bytes_max / clients), ring_bytes_min, ring_bytes_max);
  // In large pages, as the kernel's buffers are.
  constexpr std::size_t page_bytes = std::size_t{2} << 20;
  const std::size_t bytes = (clients * ring_bytes_ + page_bytes - 1) / page_bytes * page_bytes;
  rings_.reset(static_cast<char*>(std::aligned_alloc(page_bytes, bytes)));
  if (rings_ == nullptr) throw std::bad_alloc();
  static_cast<void>(madvise(rings_.get(), bytes, MADV_HUGEPAGE));
  // Clients with equally long replies would all be written at one offset, in a few sets of the caches.
  constexpr std::size_t apart_bytes = 9 * cache_line_bytes;
  for (std::size_t client = 0; client < clients; ++client) put_[client] = client * apart_bytes % ring_bytes_;
}

void ReplySink::put(std::uint32_t client, const char* bytes, std::size_t count) {
  TD_DEBUG_ASSERT(client < put_.size());
  if (!copies_) {
    if (TD_UNLIKELY(kept_ != nullptr)) kept_->append(bytes, count);
    return;
  }
  char* const ring = rings_.get() + client * ring_bytes_;
  for (std::uint64_t& at = put_[client]; count != 0;) {
    const std::size_t offset = at & (ring_bytes_ - 1), part = std::min(count, ring_bytes_ - offset);
    std::memcpy(ring + offset, bytes, part);
    if (TD_UNLIKELY(kept_ != nullptr)) kept_->append(ring + offset, part);
    at += part;
    bytes += part;
    count -= part;
  }
}

std::string ReplySink::last(std::uint32_t client, std::size_t count) const {
  TD_ASSERT(count <= ring_bytes_);
  const char* const ring = rings_.get() + client * ring_bytes_;
  const std::size_t end = put_[client] & (ring_bytes_ - 1), behind = std::min(count, end);
  return std::string(ring + ring_bytes_ - (count - behind), count - behind).append(ring + end - behind, behind);
}

}  // namespace tandem::bench
