#include "load/codec.hpp"

#include "load/codecs.hpp"

namespace tandem::load {

bool can_ask(Protocol /*protocol*/, workload::OpKind kind) { return kind != workload::OpKind::scan; }

std::size_t Codec::request_bytes_max(const Request& request, const std::uint64_t* keys) const noexcept {
  if (request.kind == RequestKind::multiget) {
    std::size_t bytes = request_overhead_bytes_max;
    for (std::uint32_t i = 0; i < request.key_count; ++i)
      bytes += contents_.key_bytes(keys[i]) + request_overhead_bytes_max;
    return bytes;
  }
  return request_overhead_bytes_max + contents_.key_bytes(request.key) +
         (request.kind == RequestKind::set ? request.value_bytes : 0);
}

std::unique_ptr<Codec> make_codec(Protocol protocol, const Contents& contents, bool verify) {
  switch (protocol) {
    case Protocol::text:
      return std::make_unique<TextCodec>(contents, verify);
    case Protocol::meta:
      return std::make_unique<MetaCodec>(contents, verify);
    case Protocol::binary:
      return std::make_unique<BinaryCodec>(contents, verify);
  }
  return nullptr;
}

}  // namespace tandem::load
