// For tests: a store that has every key, which gives the right replies to a codec's requests.
#pragma once
#include <algorithm>
#include <optional>
#include <string>

#include "bench/load/plan.hpp"
#include "codec/binary.hpp"

namespace tandem::load {

class RightReplies {
 public:
  RightReplies(const Plan& plan) : plan_(plan) {}

  std::string key(const Request& request, std::uint64_t number) const {
    std::string bytes(workload::key_bytes_max, '\0');
    bytes.resize(static_cast<std::size_t>(keys(request).write_key(number, bytes.data()) - bytes.data()));
    return bytes;
  }
  std::string value(const Request& request, std::uint64_t number) const {
    std::string bytes(keys(request).value_bytes(number), '\0');
    keys(request).write_value(number, bytes.data());
    return bytes;
  }

  // `missing`: the position in the request of a key that is not found.
  std::string reply(const Request& request, const std::uint64_t* numbers, std::uint32_t missing = UINT32_MAX) const {
    const Protocol protocol = plan_.options.protocol;
    if (protocol == Protocol::binary) return binary_reply(request, numbers, missing);
    if (protocol == Protocol::resp) return resp_reply(request, numbers, missing);
    const bool is_text = protocol == Protocol::text;
    switch (request.kind) {
      case RequestKind::set:
        return is_text ? "STORED\r\n" : "HD\r\n";
      case RequestKind::remove:
        return missing == 0 ? (is_text ? "NOT_FOUND\r\n" : "NF\r\n") : (is_text ? "DELETED\r\n" : "HD\r\n");
      case RequestKind::touch:
        return missing == 0 ? (is_text ? "NOT_FOUND\r\n" : "EN\r\n") : (is_text ? "TOUCHED\r\n" : "HD\r\n");
      case RequestKind::scan:
        return is_text ? "" : scan_reply(request);
      case RequestKind::get:
      case RequestKind::multiget:
        break;
    }
    std::string out;
    for (std::uint32_t i = 0; i < request.key_count; ++i) {
      if (i == missing) continue;
      const std::string data = value(request, numbers[i]);
      const std::string length = std::to_string(data.size());
      const bool with_key = request.kind == RequestKind::multiget || plan_.options.getk;
      out += is_text ? "VALUE " + key(request, numbers[i]) + " 0 " + length
                     : "VA " + length + (with_key ? " k" + key(request, numbers[i]) : "");
      out += "\r\n" + data + "\r\n";
    }
    if (is_text) return out + "END\r\n";
    if (request.kind == RequestKind::multiget) return out + "MN\r\n";
    if (!out.empty()) return out;
    return plan_.options.getk ? "EN k" + key(request, numbers[0]) + "\r\n" : "EN\r\n";
  }

  // To mr: an item, and the last line of a reply with `items`. `more_behind`: the range goes on behind this key.
  std::string item(const Request& request, std::uint64_t number) const {
    const std::string data = value(request, number);
    return "VA " + std::to_string(data.size()) + " k" + key(request, number) + "\r\n" + data + "\r\n";
  }
  std::string end_of_scan(const Request& request, std::size_t items,
                          std::optional<std::uint64_t> more_behind = std::nullopt) const {
    return "EN n" + std::to_string(items) + (more_behind ? " m k" + key(request, *more_behind) : "") + "\r\n";
  }

 private:
  // REQUIRES: keys in the order of their numbers.
  std::string scan_reply(const Request& request) const {
    const std::uint64_t end = std::min(request.key + request.scan_items, keys(request).keys());
    std::string out;
    for (std::uint64_t number = request.key; number < end; ++number) out += item(request, number);
    const bool has_more = end < keys(request).keys();
    return out + end_of_scan(request, end - request.key, has_more ? std::optional(end - 1) : std::nullopt);
  }

  const workload::KeySpace& keys(const Request& request) const { return *plan_.phases[request.phase].keys; }

  static std::string packet(std::uint8_t opcode, std::uint16_t status, std::uint32_t opaque, const std::string& extras,
                            const std::string& key, const std::string& value) {
    namespace b = codec::binary;
    std::string out(b::header_bytes, '\0');
    b::write(out.data() + b::at::magic, b::response_magic);
    b::write(out.data() + b::at::opcode, opcode);
    b::write(out.data() + b::at::key_bytes, static_cast<std::uint16_t>(key.size()));
    b::write(out.data() + b::at::extras_bytes, static_cast<std::uint8_t>(extras.size()));
    b::write(out.data() + b::at::status, status);
    b::write(out.data() + b::at::body_bytes, static_cast<std::uint32_t>(extras.size() + key.size() + value.size()));
    b::write(out.data() + b::at::opaque, opaque);
    b::write(out.data() + b::at::cas, std::uint64_t{77});
    return out + extras + key + value;
  }

  std::string resp_reply(const Request& request, const std::uint64_t* numbers, std::uint32_t missing) const {
    if (request.kind == RequestKind::set) return "+OK\r\n";
    if (request.kind == RequestKind::remove || request.kind == RequestKind::touch)
      return missing == 0 ? ":0\r\n" : ":1\r\n";
    std::string out = request.kind == RequestKind::multiget ? "*" + std::to_string(request.key_count) + "\r\n" : "";
    for (std::uint32_t i = 0; i < request.key_count; ++i) {
      const std::string data = value(request, numbers[i]);
      out += i == missing ? "$-1\r\n" : "$" + std::to_string(data.size()) + "\r\n" + data + "\r\n";
    }
    return out;
  }

  std::string binary_reply(const Request& request, const std::uint64_t* numbers, std::uint32_t missing) const {
    namespace o = codec::binary::opcode;
    const std::string flags(4, '\0');
    switch (request.kind) {
      case RequestKind::set:
        return packet(o::set, 0, request.opaque, "", "", "");
      case RequestKind::remove:
        return packet(o::remove, missing == 0 ? 1 : 0, request.opaque, "", "", missing == 0 ? "Not found" : "");
      case RequestKind::touch:
        return missing == 0 ? packet(o::touch, 1, request.opaque, "", "", "Not found")
                            : packet(o::touch, 0, request.opaque, flags, "", "");
      case RequestKind::get:
        return missing == 0 ? packet(o::get, 1, request.opaque, "", "", "Not found")
                            : packet(o::get, 0, request.opaque, flags, "", value(request, numbers[0]));
      case RequestKind::scan:
        return "";
      case RequestKind::multiget:
        break;
    }
    std::string out;
    for (std::uint32_t i = 0; i < request.key_count; ++i) {
      if (i != missing)
        out += packet(o::getkq, 0, request.opaque + i, flags, key(request, numbers[i]), value(request, numbers[i]));
    }
    return out + packet(o::noop, 0, request.opaque + request.key_count, "", "", "");
  }

  const Plan& plan_;
};

// The requests of a batch, one after the other, each with its keys.
template <class Visit>
void for_each_request(const Batch& batch, Visit&& visit) {
  const std::uint64_t* keys = batch.keys.data();
  for (const Request& request : batch.requests) {
    visit(request, request.key_count == 1 ? &request.key : keys);
    if (request.key_count > 1) keys += request.key_count;
  }
}

}  // namespace tandem::load
