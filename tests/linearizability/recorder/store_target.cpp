// A store in this process through its public API. Bursts are batches.
#include <stdexcept>
#include <utility>

#include "pause.hpp"
#include "requests.hpp"
#include "scan_read.hpp"
#include "tandem/store.hpp"
#include "target.hpp"
#include "values.hpp"

namespace tandem::record {
namespace {

Outcome outcome_of(Kind kind, Code code) {
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

class StoreClient final : public Client {
 public:
  StoreClient(Store& store, std::uint32_t pause_us, std::uint64_t seed)
      : store_(store), session_(store.session()), pause_(pause_us, seed) {}

  void run(std::span<Operation> burst) override {
    for_each_part(burst, [this](Operation& o) { scan(o); }, [this](std::span<Operation> part) { execute(part); });
  }
  bool abandon(std::span<Operation> /*burst*/) override { return false; }

 private:
  static bool is_get(const Operation& o) { return o.kind == Kind::get; }

  void scan(Operation& o) {
    ScanRead read(o);
    o.called_ns = now_ns();
    const Scanned scanned =
        session_.scan({.begin = o.scan.begin, .end = o.scan.end, .reverse = o.scan.reverse}, o.scan.limit,
                      [&](const ScannedItem& item) { read.item(item.key, item.value, item.cas, item.flags); });
    o.returned_ns = now_ns();
    read.end(scanned.done, scanned.last);
  }

  void execute(std::span<Operation> burst) {
    std::vector<Request> requests;
    std::vector<std::size_t> again;  // what was answered was about another key
    for (const Operation& o : burst) {
      if (o.kind == Kind::flush) continue;
      const bool by_caller = o.kind == Kind::get && ++gets_ % 2 == 0;
      requests.push_back(request_of(o, by_caller ? KeyCheck::caller : KeyCheck::store));
    }
    const std::int64_t called = now_ns();
    if (requests.empty()) {
      store_.clear();
      burst[0].outcome = Outcome::flushed;
    }
    const auto take = [&](Operation& o, const Reply& r) {
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
    };
    session_.execute(requests, [&](std::size_t i, const Reply& r) {
      if (is_get(burst[i]) && !is_reply_to(burst[i].key, r)) return again.push_back(i);
      take(burst[i], r);
    });
    const std::int64_t returned = now_ns();
    for (Operation& o : burst) {
      o.called_ns = called;
      o.returned_ns = returned;
    }
    for (const std::size_t i : again) {
      requests[i].key_check = KeyCheck::store;
      burst[i].burst |= asked_again;
      burst[i].called_ns = now_ns();
      session_.execute({&requests[i], 1}, [&](std::size_t, const Reply& r) { take(burst[i], r); });
      burst[i].returned_ns = now_ns();
    }
  }
  Store& store_;
  Session session_;
  Pause pause_;
  std::uint64_t gets_ = 0;
};

class StoreTarget final : public Target {
 public:
  explicit StoreTarget(const TargetOptions& o)
      : store_({.memory_bytes = o.memory_bytes,
                .item_bytes_expected = o.item_bytes_expected,
                .evict = o.evict,
                .huge_pages = false,
                .ordered = o.ordered != 0}),
        pause_us_(o.pause_us) {}
  std::unique_ptr<Client> client(std::uint64_t seed) override {
    return std::make_unique<StoreClient>(store_, pause_us_, seed);
  }
  TargetStats stats() override {
    const Stats s = store_.stats();
    return {.evictions = s.evictions, .index_bytes = s.index_bytes};
  }
  void move_page(std::uint32_t /*to_class*/) override { throw std::logic_error("the public API moves no pages"); }
  void fault(std::uint64_t /*random*/) override {}

 private:
  Store store_;
  const std::uint32_t pause_us_;
};

}  // namespace

std::unique_ptr<Target> open_store(const TargetOptions& options) { return std::make_unique<StoreTarget>(options); }

}  // namespace tandem::record
