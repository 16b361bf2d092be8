// A client that asks by calls of a session, in batches, and looks at what it gets for some time, as the visitor of an
// embedding program may.
#pragma once
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "pause.hpp"
#include "requests.hpp"
#include "scan_read.hpp"
#include "tandem/store.hpp"
#include "target.hpp"
#include "values.hpp"

namespace tandem::record {

inline Outcome outcome_of(Kind kind, Code code) {
  switch (code) {
    case Code::hit:
      return kind == Kind::get || kind == Kind::exchange ? Outcome::hit
             : kind == Kind::touch                       ? Outcome::touched
                                                         : Outcome::number;
    case Code::miss:
      return Outcome::miss;
    case Code::stored:
      return Outcome::stored;
    case Code::not_stored:
      return Outcome::not_stored;
    case Code::exists:
      return Outcome::exists;
    case Code::removed:
      return Outcome::removed;
    case Code::not_a_number:
      return Outcome::not_a_number;
    case Code::out_of_memory:
      return Outcome::no_memory;
    case Code::too_large:
    case Code::bad_key:
      break;
  }
  throw std::runtime_error("an answer that fits no request");
}

class CallsClient : public Client {
 public:
  using Visit = std::function<void(std::size_t, const Reply&)>;

  CallsClient(std::uint32_t pause_us, std::uint64_t seed) : pause_(pause_us, seed) {}

  void run(std::span<Operation> burst) override {
    for_each_part(burst, [this](Operation& o) { scan(o); }, [this](std::span<Operation> part) { run_part(part); });
  }
  bool abandon(std::span<Operation> /*burst*/) override { return false; }

 protected:
  virtual void scan(Operation& o) = 0;
  virtual void flush() = 0;
  // Calls visit once for each request, with its number.
  virtual void execute(std::span<const Request> requests, const Visit& visit) = 0;
  // Who has searched for request i of the last call.
  virtual Path path_of(std::size_t /*i*/) const { return Path::unknown; }

  Pause pause_;

 private:
  void run_part(std::span<Operation> burst) {
    std::vector<Request> requests;
    std::vector<std::size_t> again;  // what was answered was about another key
    for (const Operation& o : burst) {
      if (o.kind == Kind::flush) continue;
      // Every other read leaves the comparison of its key to us.
      const bool by_caller = o.kind == Kind::get && ++gets_ % 2 == 0;
      requests.push_back(request_of(o, by_caller ? KeyCheck::caller : KeyCheck::store));
    }
    const std::int64_t called = now_ns();
    if (requests.empty()) {
      flush();
      burst[0].outcome = Outcome::flushed;
    } else {
      execute(requests, [&](std::size_t i, const Reply& r) {
        if (burst[i].kind == Kind::get && !is_reply_to(burst[i].key, r)) return again.push_back(i);
        take(burst[i], r);
      });
    }
    const std::int64_t returned = now_ns();
    for (std::size_t i = 0; i < burst.size(); ++i) {
      burst[i].called_ns = called;
      burst[i].returned_ns = returned;
      if (!requests.empty()) burst[i].path = path_of(i);
    }
    for (const std::size_t i : again) {
      requests[i].key_check = KeyCheck::store;
      burst[i].burst |= asked_again;
      burst[i].called_ns = now_ns();
      execute({&requests[i], 1}, [&](std::size_t, const Reply& r) { take(burst[i], r); });
      burst[i].returned_ns = now_ns();
    }
  }

  void take(Operation& o, const Reply& r) {
    o.outcome = outcome_of(o.kind, r.code);
    o.cas = r.cas;
    if (o.outcome == Outcome::number) o.read = std::to_string(r.number);
    const bool hands_over = o.kind != Kind::get && (o.outcome == Outcome::hit || o.kind == Kind::take);
    if (hands_over) o.expected = std::exchange(o.cas, 0);
    if (o.outcome == Outcome::hit || (hands_over && o.outcome == Outcome::removed)) {
      pause_.sometimes();
      o.read = value_of(r.value);
      o.read_flags = r.flags;
    }
  }

  std::uint64_t gets_ = 0;
};

}  // namespace tandem::record
