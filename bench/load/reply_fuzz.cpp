// Any bytes as the reply to any request: nothing is read past their end. A reply that was accepted as complete is
// accepted likewise when more bytes follow, and is partial when any are missing.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "bench/load/plan.hpp"
#include "bench/load/udp_reply.hpp"
#include "tandem/getk.hpp"

namespace {

using namespace tandem;
using namespace tandem::load;

const std::vector<std::unique_ptr<Plan>>& plans() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Plan>> made;
    for (const Protocol protocol : {Protocol::text, Protocol::meta, Protocol::binary, Protocol::resp}) {
      for (const bool verify : {false, true}) {
        Options options;
        options.protocol = protocol;
        options.verify = verify;
        workload::Spec& spec = options.workloads.front();
        spec.keys = 4;
        spec.key_bytes = workload::Sizes::fixed(8);
        spec.value_bytes = workload::Sizes::fixed(3);
        made.push_back(std::make_unique<Plan>(options));
      }
    }
    for (const bool verify : {false, true}) {
      Options options = made[2]->options;
      options.verify = verify;
      options.getk = true;
      made.push_back(std::make_unique<Plan>(options));
    }
    return made;
  }();
  return all;
}

void require(bool holds) {
  if (!holds) std::abort();
}

// The client library's own parser of these replies (include/tandem).
void check_getk(std::string_view reply) {
  const GetkReply whole = read_getk_reply(reply, "00000000");
  const bool is_taken = whole.code != GetkReply::Code::partial && whole.code != GetkReply::Code::wrong;
  require(is_taken == (whole.bytes != 0) && whole.bytes <= reply.size());
  if (!is_taken) return;
  const std::vector<char> exact(reply.begin(), reply.begin() + static_cast<std::ptrdiff_t>(whole.bytes));
  const GetkReply again = read_getk_reply({exact.data(), exact.size()}, "00000000");
  require(again.code == whole.code && again.bytes == whole.bytes && again.value == whole.value);
  require(read_getk_reply({exact.data(), exact.size() - 1}, "00000000").code == GetkReply::Code::partial);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const Plan& plan = *plans()[data[0] % plans().size()];
  static constexpr std::uint64_t keys[] = {0, 1, 1};
  Request request{};
  request.kind = static_cast<RequestKind>(data[1] % request_kind_count);
  request.key_count = request.kind == RequestKind::multiget ? 3 : 1;
  request.value_bytes = 3;
  const bool is_scan = request.kind == RequestKind::scan;
  if (is_scan) request.scan_items = 3;
  // An exact-size copy, so that sanitizers detect any read past the end.
  const std::vector<char> bytes(data + 2, data + size);
  const std::string_view reply(bytes.data(), bytes.size());
  const ReplyCheck whole = plan.codec_of(request).check(request, keys, reply);
  const bool is_taken = whole.status == ReplyStatus::complete || whole.status == ReplyStatus::wrong_value;
  if (is_taken) {
    const std::uint32_t keys_max = is_scan ? request.scan_items : request.key_count;
    require(whole.bytes > 0 && whole.bytes <= reply.size() && whole.hits + whole.other_keys <= keys_max);
    require(whole.missing_keys <= (is_scan ? request.scan_items : 0) && (!whole.is_cut || whole.hits < keys_max));
    const ReplyCheck exact = plan.codec_of(request).check(request, keys, reply.substr(0, whole.bytes));
    require(exact.status == whole.status && exact.bytes == whole.bytes && exact.hits == whole.hits &&
            exact.missing_keys == whole.missing_keys && exact.is_cut == whole.is_cut);
    const std::vector<char> shorter(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(whole.bytes) - 1);
    require(plan.codec_of(request).check(request, keys, {shorter.data(), shorter.size()}).status ==
            ReplyStatus::partial);
  } else if (whole.status == ReplyStatus::wrong) {
    require(!whole.what.empty());
  } else {
    require(whole.bytes <= reply.size());
  }
  check_getk(reply);
  // The same bytes as datagrams, split by their own values.
  UdpReply datagrams;
  for (std::size_t at = 2; at + 8 <= size;) {
    const UdpReplyFrame frame = UdpReplyFrame::read({reinterpret_cast<const char*>(data) + at, 8});
    const std::size_t payload = std::min<std::size_t>(data[at] % 16, size - at - 8);
    const std::string_view part(reinterpret_cast<const char*>(data) + at + 8, payload);
    if (datagrams.add(frame, part) == UdpReply::Status::wrong) datagrams.clear();
    at += 8 + payload;
  }
  return 0;
}
