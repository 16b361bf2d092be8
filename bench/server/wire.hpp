// Requests and replies of the memcached protocol as a benchmark client writes and checks them.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "workload.hpp"

namespace tandem::bench {

enum class Protocol : uint8_t { text, meta };

enum class RequestKind : uint8_t { get, multiget, set };

// One request: `key_count` steps of the workload from `position` on. Only a multiget has more than one.
struct Request {
  uint64_t start_ns;  // when it was sent, or in an open loop when it should have been
  uint32_t position;
  uint32_t key_count;
  uint32_t bytes;  // of the request, without a UDP frame
  RequestKind kind;
};

// What one send carries: requests, each after `frame_bytes` free bytes.
struct Batch {
  std::vector<char> buffer;
  size_t size = 0;
  std::vector<Request> requests;
};

enum class ReplyStatus : uint8_t { complete, partial, wrong };

struct ReplyCheck {
  ReplyStatus status;
  uint32_t hits = 0;  // of a get or multiget: keys that were found
  size_t bytes = 0;   // of the reply
};

struct WireOptions {
  Protocol protocol = Protocol::text;
  uint32_t pipeline = 1;     // requests (with multiget: multigets) of one batch
  uint32_t multiget = 1;     // keys per get; above 1, sets are added so that the get ratio holds over keys
  bool verify = false;       // compare every byte of every reply
  uint32_t frame_bytes = 0;  // room to leave before each request
};

// Writes batches of requests and checks the replies to them.
//
// Text: `get k...`, `set k 0 0 n`. Meta: `mg k v`, `ms k n`; a multiget is `mg k k v q` for each key, then `mn`.
// A reply is checked for its length, first byte and line ends, with `verify` for every byte.
// Thread safety: none.
class Wire {
 public:
  Wire(const Workload& workload, const WireOptions& options) : workload_(workload), options_(options) {
    const std::string length = std::to_string(workload.options().value_bytes);
    const bool is_text = options.protocol == Protocol::text;
    value_head_before_key_ = is_text ? "VALUE " : "VA " + length + " k";
    value_head_after_key_ = is_text ? " 0 " + length + "\r\n" : "\r\n";
    value_head_without_key_ = "VA " + length + "\r\n";
    set_tail_ = (is_text ? " 0 0 " : " ") + length + "\r\n";
    const double get_ratio = workload.options().get_ratio;
    sets_per_multiget_ = options.multiget > 1 ? options.multiget * (1 - get_ratio) / get_ratio : 0;

    const size_t key = workload.options().key_bytes;
    const size_t value = workload.options().value_bytes;
    const auto requests = static_cast<size_t>(sets_per_multiget_) + 2;  // the most that one step of make() adds
    const size_t get_bytes = (key + 16) * options.multiget + 16;
    const size_t set_bytes = key + value + 32;
    batch_bytes_ = (get_bytes + (set_bytes + options.frame_bytes) * requests) * options.pipeline;
    reply_bytes_ = (key + value + 32) * options.multiget + 16;
    if (options.multiget > workload.step_count()) throw std::invalid_argument("more keys per get than keys");
  }

  // The mean number of keys that a batch reads and writes.
  double ops_per_batch() const { return (options_.multiget + sets_per_multiget_) * options_.pipeline; }

  // The longest correct reply.
  size_t max_reply_bytes() const { return reply_bytes_; }

  // Fills `batch` with the next requests of the workload.
  void make(Batch& batch) {
    batch.buffer.resize(batch_bytes_);
    batch.requests.clear();
    char* out = batch.buffer.data();
    for (uint32_t i = 0; i < options_.pipeline; ++i) {
      if (options_.multiget <= 1) {
        const bool is_set = workload_.step(position_).is_set();
        out = add(batch, out, is_set ? RequestKind::set : RequestKind::get, 1);
        continue;
      }
      for (sets_due_ += sets_per_multiget_; sets_due_ >= 1; --sets_due_) out = add(batch, out, RequestKind::set, 1);
      out = add(batch, out, RequestKind::multiget, options_.multiget);
    }
    batch.size = static_cast<size_t>(out - batch.buffer.data());
  }

  // Checks the reply to `request` at the start of `data`. `partial`: more bytes are needed to tell.
  ReplyCheck check(const Request& request, std::string_view data) const {
    Cursor in{data, 0, ReplyStatus::complete};
    const bool is_text = options_.protocol == Protocol::text;
    uint32_t hits = 0;
    switch (request.kind) {
      case RequestKind::set:
        in.expect(is_text ? "STORED\r\n" : "HD\r\n");
        break;
      case RequestKind::get:
        if (in.at('V')) {
          take_value(in, key_at(request, 0), is_text);
          hits = 1;
          if (is_text) in.expect("END\r\n");
        } else {
          in.expect(is_text ? "END\r\n" : "EN\r\n");
        }
        break;
      case RequestKind::multiget: {
        uint32_t next = 0;
        while (in.status == ReplyStatus::complete && in.at('V')) {
          if (options_.verify) {
            Cursor head = in;
            head.expect(value_head_before_key_);
            in.status = head.status == ReplyStatus::wrong ? head.status : in.status;
            if (in.status == ReplyStatus::wrong) break;
            next = find_key(request, next, in);
          }
          if (next >= request.key_count || hits == request.key_count) {
            in.fail_if_whole(value_head_before_key_.size() + workload_.options().key_bytes);
            break;
          }
          take_value(in, key_at(request, next), true);
          ++hits;
          if (options_.verify) ++next;
        }
        in.expect(is_text ? "END\r\n" : "MN\r\n");
        break;
      }
    }
    return {in.status, hits, in.position};
  }

 private:
  // Takes literals off the front of a reply that may not be all there yet.
  struct Cursor {
    std::string_view data;
    size_t position;
    ReplyStatus status;

    std::string_view rest() const { return data.substr(position); }
    bool at(char first) const { return position < data.size() && data[position] == first; }

    void expect(std::string_view literal) {
      if (status != ReplyStatus::complete) return;
      const std::string_view got = rest().substr(0, literal.size());
      if (got != literal.substr(0, got.size())) {
        status = ReplyStatus::wrong;
      } else if (got.size() < literal.size()) {
        status = ReplyStatus::partial;
      } else {
        position += literal.size();
      }
    }

    void fail_if_whole(size_t size) { status = rest().size() < size ? ReplyStatus::partial : ReplyStatus::wrong; }
  };

  char* add(Batch& batch, char* out, RequestKind kind, uint32_t key_count) {
    char* const start = out + options_.frame_bytes;
    out = start;
    const bool is_text = options_.protocol == Protocol::text;
    switch (kind) {
      case RequestKind::set:
        out = put(out, is_text ? "set " : "ms ");
        out = workload_.write_key(workload_.step(position_).key(), out);
        out = put(out, set_tail_);
        out = workload_.write_value(workload_.step(position_).key(), out);
        out = put(out, "\r\n");
        break;
      case RequestKind::get:
        out = put(out, is_text ? "get " : "mg ");
        out = workload_.write_key(workload_.step(position_).key(), out);
        out = put(out, is_text ? "\r\n" : " v\r\n");
        break;
      case RequestKind::multiget:
        if (is_text) out = put(out, "get");
        for (uint32_t i = 0; i < key_count; ++i) {
          out = put(out, is_text ? " " : "mg ");
          out = workload_.write_key(workload_.step(position_ + i).key(), out);
          if (!is_text) out = put(out, " k v q\r\n");
        }
        out = put(out, is_text ? "\r\n" : "mn\r\n");
        break;
    }
    batch.requests.push_back({0, position_, key_count, static_cast<uint32_t>(out - start), kind});
    position_ += key_count;
    if (position_ >= workload_.step_count()) position_ -= workload_.step_count();
    return out;
  }

  static char* put(char* out, std::string_view text) {
    std::memcpy(out, text.data(), text.size());
    return out + text.size();
  }

  uint32_t key_at(const Request& request, uint32_t i) const { return workload_.step(request.position + i).key(); }

  // One found value: its line, its data, the line end.
  void take_value(Cursor& in, uint32_t key, bool has_key) const {
    const size_t value_bytes = workload_.options().value_bytes;
    const size_t key_bytes = has_key ? workload_.options().key_bytes : 0;
    const std::string& head = has_key ? value_head_before_key_ : value_head_without_key_;
    const size_t data_at = head.size() + (has_key ? key_bytes + value_head_after_key_.size() : 0);
    const std::string_view reply = in.rest();
    if (!options_.verify) {
      in.expect(std::string_view(head).substr(0, 1));
    } else {
      in.expect(head);
      if (has_key) {
        char expected[Workload::max_key_bytes];
        workload_.write_key(key, expected);
        in.expect({expected, key_bytes});
        in.expect(value_head_after_key_);
      }
      if (in.status != ReplyStatus::complete) return;
    }
    if (reply.size() < data_at + value_bytes + 2) {
      // A reply that has a line end where the client expects none is wrong however long one waits for the rest.
      const size_t line = reply.find('\n');
      in.status = line != reply.npos && line + 1 != data_at ? ReplyStatus::wrong : ReplyStatus::partial;
      return;
    }
    const char* value = reply.data() + data_at;
    const bool framed = value[-1] == '\n' && value[value_bytes] == '\r' && value[value_bytes + 1] == '\n';
    if (!framed || (options_.verify && !workload_.value_matches(key, value))) {
      in.status = ReplyStatus::wrong;
      return;
    }
    in.position = static_cast<size_t>(reply.data() - in.data.data()) + data_at + value_bytes + 2;
  }

  // Which of the request's keys, from `first` on, the value at `in` is for; key_count if none.
  uint32_t find_key(const Request& request, uint32_t first, const Cursor& in) const {
    const size_t key_bytes = workload_.options().key_bytes;
    const std::string_view reply = in.rest();
    if (reply.size() < value_head_before_key_.size() + key_bytes) return request.key_count;
    char expected[Workload::max_key_bytes];
    for (uint32_t i = first; i < request.key_count; ++i) {
      workload_.write_key(key_at(request, i), expected);
      if (std::memcmp(expected, reply.data() + value_head_before_key_.size(), key_bytes) == 0) return i;
    }
    return request.key_count;
  }

  const Workload& workload_;
  WireOptions options_;
  std::string value_head_before_key_;
  std::string value_head_after_key_;
  std::string value_head_without_key_;
  std::string set_tail_;
  double sets_per_multiget_;
  double sets_due_ = 0;
  size_t batch_bytes_;
  size_t reply_bytes_;
  uint32_t position_ = 0;
};

}  // namespace tandem::bench
