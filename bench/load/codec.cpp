#include "bench/load/codec.hpp"

#include "bench/load/codecs.hpp"

namespace tandem::load {

bool can_ask(Protocol /*protocol*/, workload::OpKind kind) { return kind != workload::OpKind::scan; }

std::unique_ptr<Codec> make_codec(Protocol protocol, const Contents& contents, bool verify, bool getk) {
  switch (protocol) {
    case Protocol::text:
      return std::make_unique<TextCodec>(contents, verify);
    case Protocol::meta:
      return std::make_unique<MetaCodec>(contents, verify, getk);
    case Protocol::binary:
      return std::make_unique<BinaryCodec>(contents, verify);
    case Protocol::resp:
      return std::make_unique<RespCodec>(contents, verify);
  }
  return nullptr;
}

}  // namespace tandem::load
