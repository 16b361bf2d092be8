// Options of a run of the load generator.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/workload/spec.hpp"

namespace tandem::load {

// memcached's three, and Redis' for comparison.
enum class Protocol : std::uint8_t { text, meta, binary, resp };

// Due times of an open loop's batches: at equal distances, or as a Poisson process of the same rate.
enum class Arrivals : std::uint8_t { uniform, poisson };

// Several workloads that alternate, each for a time or for a number of operations of each connection.
struct Alternation {
  std::uint64_t every_ns = 0;
  std::uint64_t every_ops = 0;  // of each connection; 0: by time
};

struct Options {
  std::string server = "127.0.0.1:11211";  // HOST:PORT, [V6]:PORT or unix:/PATH
  Protocol protocol = Protocol::text;
  bool udp = false;
  std::uint32_t threads = 1;
  std::uint32_t connections = 1;  // of all threads together; UDP: sockets
  std::vector<int> processors;    // thread i runs on processors[i % size]; empty: anywhere
  std::uint32_t pipeline = 1;     // requests in one send; a closed loop waits for all their replies
  std::uint32_t multiget = 1;     // keys of a get
  bool getk = false;              // meta: this client compares keys, the server need not

  std::vector<workload::Spec> workloads{workload::Spec{}};  // one, or several that alternate
  Alternation alternation;
  std::string trace;        // a file of recorded operations; empty: draw them
  double replay_speed = 0;  // replay the trace by its own times, this many times as fast; 0: as fast as the loop goes

  double rate_per_s = 0;  // operations of all threads together; 0: closed loop
  Arrivals arrivals = Arrivals::uniform;
  double seconds = 1;  // 0: until the trace ends
  double warmup_s = 0.1;
  std::uint64_t ops = 0;  // measure this many operations instead of `seconds`, without warm-up; 0: no
  double timeout_s = 5;   // maximum wait for an answer
  bool spin = false;      // never sleep, so that the server never pays for waking the client
  bool verify = true;     // compare every byte of every reply
  bool require_hits = false;
  std::vector<pid_t> server_pids;  // processes to measure, together; empty: none

  // Called by the first thread when the window of measurement opens (true) and closes (false).
  std::function<void(bool)> at_window_edge;
};

// Whether a miss can only be the server's fault, given that every key was set before and the store is large enough:
// nothing expires and nothing is removed.
bool misses_are_errors(const Options& options);

// Throws std::invalid_argument for impossible options, with a message for users.
void validate(const Options& options);

}  // namespace tandem::load
