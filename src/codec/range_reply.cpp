#include "codec/range_reply.hpp"

#include <cstring>

namespace tandem::codec {

RangeReply::RangeReply(const ReplyContext& context)
    : context_(context),
      out_(context.out),
      begin_(out_.size()),
      externals_begin_(out_.externals().size()),
      pinned_begin_(out_.pinned_bytes()) {}

void RangeReply::restart() {
  for (std::size_t i = externals_begin_; i < out_.externals().size(); ++i) context_.heap.unpin(out_.externals()[i].pin);
  out_.truncate(begin_, externals_begin_);
  kept_.clear();
  count_ = 0;
}

bool RangeReply::has_room(std::size_t copied, std::uint64_t pinned) const noexcept {
  return out_.size() - begin_ + kept_.size() + copied + (out_.pinned_bytes() - pinned_begin_) + pinned <=
         range_reply_bytes_max;
}

void RangeReply::keep_key(std::string_view key) {
  char* const to = kept_.reserve(1 + key_bytes_max);
  to[0] = static_cast<char>(key.size());
  std::memcpy(to + 1, key.data(), key.size());
  kept_.commit(1 + key.size());
}

std::string_view RangeReply::next_key(std::size_t& at) const noexcept {
  const char* const key = kept_.data() + at + 1;
  const std::size_t bytes = static_cast<unsigned char>(kept_.data()[at]);
  at += 1 + bytes;
  return {key, bytes};
}

}  // namespace tandem::codec
