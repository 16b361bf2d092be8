// PP: parses received input, of connections and datagrams, to queries of the intake's batch. Values too large to be
// received whole get a slot in the heap (Fill), which is received into.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>

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
  // Adds an entry for the rest of a datagram, and parses it. run() is called before, if the batch may not have room for
  // all of it; a batch that is full afterwards is run on the host, because a datagram cannot wait for its turn.
  template <class Run>
  void parse(UdpDatagram& datagram, const char* begin, const char* end, Run run) {
    if (TD_UNLIKELY(!has_room(static_cast<std::uint64_t>(end - begin)))) run();
    batches_.add_entry(nullptr, begin, end, &datagram);
    if (TD_UNLIKELY(!parse_to_full(*datagram.parser))) run_long(datagram);
  }

 private:
  bool parse_to_full(Connection& c);
  bool parse_to_full(Parser& parser);
  bool has_room(std::uint64_t bytes) noexcept;
  void run_long(UdpDatagram& datagram);
  bool yields_after(std::uint64_t queries) noexcept;
  task::Parsed parse_entry(Parser& parser);
  bool begin_large(Connection& c);
  bool finish_fill(Connection& c);
  void log_requests(const Entry& entry);

  WorkerState& worker_;
  Connections& connections_;
  ConnectionLimits& limits_;
  Batches& batches_;
};

}  // namespace tandem::net
