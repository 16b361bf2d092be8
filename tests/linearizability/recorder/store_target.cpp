// A store in this process through its public API. Bursts are batches.
#include <stdexcept>

#include "calls_client.hpp"

namespace tandem::record {
namespace {

class StoreClient final : public CallsClient {
 public:
  StoreClient(Store& store, std::uint32_t pause_us, std::uint64_t seed)
      : CallsClient(pause_us, seed), store_(store), session_(store.session()) {}

 private:
  void scan(Operation& o) override {
    ScanRead read(o);
    o.called_ns = now_ns();
    const Scanned scanned =
        session_.scan({.begin = o.scan.begin, .end = o.scan.end, .reverse = o.scan.reverse}, o.scan.limit,
                      [&](const ScannedItem& item) { read.item(item.key, item.value, item.cas, item.flags); });
    o.returned_ns = now_ns();
    read.end(scanned.done, scanned.last);
  }
  void flush() override { store_.clear(); }
  void execute(std::span<const Request> requests, const Visit& visit) override { session_.execute(requests, visit); }

  Store& store_;
  Session session_;
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
