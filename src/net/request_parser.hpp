// PP: parses received input, of connections and datagrams, to queries of the intake's batch. Values too large to be
// received whole get a slot in the heap (Fill), which is received into.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "net/batches.hpp"
#include "net/connection_limits.hpp"
#include "net/connections.hpp"
#include "net/worker_state.hpp"

namespace tandem::net {

class RequestParser {
 public:
  // All outlive the parser.
  RequestParser(WorkerState& worker, Connections& connections, ConnectionLimits& limits, Batches& batches) noexcept
      : worker_(worker), connections_(connections), limits_(limits), batches_(batches) {}

  // Parses the input of the last entry, which is the connection's. run() is called when the batch is full: it executes
  // it (Batches::run(true)) or hands it over. Parsing continues then if the entry is still there and has not had its
  // share of the pass.
  template <class Run>
  void parse(Connection& c, Run run) {
    std::uint64_t queries = 0;
    while (TD_UNLIKELY(!parse_to_full(c))) {
      queries += batches_.batch().size() - batches_.in().entries.back().first_query;
      run();
      if (batches_.in().entries.empty() || yields_after(queries)) return;
    }
  }
  // Adds an entry for a datagram, without its frame header, and parses it: its queries go into one batch, because its
  // replies are not sent in parts. run() as in parse(), if the datagram does not fit what is left of the batch.
  template <class Run>
  void take_datagram(const UdpReply& from, std::string_view request, Run run) {
    Entry& entry = batches_.add_entry(nullptr, request.data(), request.data() + request.size());
    entry.reply = from;
    if (TD_LIKELY(parse_datagram())) return;
    const Entry taken = take_back();
    run();
    take_long_datagram(taken);
  }

 private:
  bool parse_to_full(Connection& c);
  bool yields_after(std::uint64_t queries) noexcept;
  bool parse_datagram();
  Entry take_back() noexcept;
  void take_long_datagram(Entry entry);
  task::Parsed parse_entry(Parser& parser);
  bool begin_large(Connection& c);
  bool finish_fill(Connection& c);
  void log_requests(const Entry& entry);

  WorkerState& worker_;
  Connections& connections_;
  ConnectionLimits& limits_;
  Batches& batches_;
  std::unique_ptr<Batch> long_batch_;  // for datagrams with more queries than a batch holds; made for the first one
};

}  // namespace tandem::net
