// What is recorded: a server over TCP, or a store in this process.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "history.hpp"

namespace tandem::record {

inline constexpr std::uint32_t burst_max = 256;

struct TargetOptions {
  std::string plan = "cpu";  // in process: cpu; mirrored, a device in software; values, with copies of items there;
                             // or device, which alone has the index
  std::string index_kind = "cuckoo";  // in process
  std::uint32_t ordered = 0;          // in process: keeps the keys in order, too
  std::uint32_t leaf_cells = 512;     // in process, but not by the public API: of the tree that keeps them
  std::string batch_plan;      // in process: the plan of every call, as a text (plan/plan.hpp); `drawn`: any that is
                               // feasible, for each call anew; empty: what the devices are for
  std::string api = "engine";  // in process: store (the public one; plan cpu alone) or engine
  std::uint64_t memory_bytes = std::uint64_t{64} << 20;
  std::uint32_t item_bytes_expected = 256;
  bool evict = true;           // not: what has no room is refused
  std::uint32_t pause_us = 0;  // in process: some reads look at their value only after so long
  std::uint32_t device_latency_us = 0;
  unsigned devices = 1;
  std::string gpu = "sim";               // in process: sim, devices in software; else the number of the first GPU
  std::uint32_t host_percent = 0;        // in process: of calls that are not handed over to a device
  std::uint32_t device_queries_min = 0;  // TCP: the server's --gpu-batch-min
  std::uint32_t control_percent = 0;     // TCP: of requests that have a command before them that searches for nothing
  std::uint64_t values_bytes = std::uint64_t{16} << 20;  // plan values: of copies of items, on each device
  std::uint64_t seed = 1;
  std::string memory_file;  // in process: where items lie, if it is not empty
};

// What tells whether a run was what its name says.
struct TargetStats {
  std::uint64_t evictions = 0, pages_moved = 0, index_bytes = 0, searched_batches = 0, image_hits = 0;
  std::uint64_t hot_queries = 0, turned_hot = 0, turned_cold = 0;  // queries of hot keys; keys
  std::uint64_t devices_lost = 0;
  std::uint64_t handed_over = 0, stolen = 0;  // queries: a device was asked; workers kept them of batches that it was
};

// A client: one thread at a time.
class Client {
 public:
  Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  virtual ~Client() = default;
  // Asks for all of them in order and fills in times, outcomes and what was read.
  virtual void run(std::span<Operation> burst) = 0;
  // The same, but gives up at once: nothing is known of what becomes of them, nor of the order in which the operations
  // of this client come that are still to be asked for. Returns false where there is no such thing.
  virtual bool abandon(std::span<Operation> burst) = 0;
};

class Target {
 public:
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;
  virtual std::unique_ptr<Client> client(std::uint64_t seed) = 0;
  virtual TargetStats stats() = 0;
  virtual void move_page(std::uint32_t to_class) = 0;  // 0: back to the memory limit
  // Something happens to a device, or what happened to it ends: it refuses or fails a piece of work, is slow, hangs,
  // or, seldom, is lost. Nothing where there is none.
  virtual void fault(std::uint64_t random) = 0;
};

// Both return when whatever they use is ready. They throw std::exception.
std::unique_ptr<Target> connect_to(std::uint16_t port, const TargetOptions& options);
std::unique_ptr<Target> open_store(const TargetOptions& options);
std::unique_ptr<Target> open_engine(const TargetOptions& options);

}  // namespace tandem::record
