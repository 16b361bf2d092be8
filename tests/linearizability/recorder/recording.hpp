// Clients on threads of their own, and what becomes of what they ask for.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "history.hpp"
#include "mix.hpp"
#include "target.hpp"

namespace tandem::record {

struct RecordingOptions {
  MixOptions mix;
  std::uint64_t operations = 20'000;
  std::uint32_t seconds = 60;           // at most
  std::uint32_t abandon_per_mille = 0;  // bursts with a connection that ends before the answers
  std::uint32_t think_us = 0;           // between two bursts of a client, on average
  std::uint32_t move_every_us = 0;      // a page to another class
  std::uint32_t fault_every_us = 0;     // of a device
};

// What a client has been told so far, and what it waits for.
struct ClientHistory {
  std::vector<Operation> answered;
  std::span<const Operation> asked;
};
using Histories = std::vector<ClientHistory>;

// What answered, where that is known.
struct Paths {
  std::uint64_t host = 0, device = 0;  // operations
  std::uint64_t hot_keys = 0;          // that were asked for
  std::uint64_t both = 0;              // of them: answered by both
};
Paths paths_of(const Histories& histories);
// Operations that were answered so.
std::uint64_t count(const Histories& histories, Outcome outcome);
std::uint64_t count_asked_again(const Histories& histories);

// Fills in the histories of all clients. The last is of a client that looks at what all clients have forgotten: it must
// still be there. Throws what a client throws.
void record(const RecordingOptions& options, Target& target, Histories& histories);

// Asks for the values of these keys, as one more client.
void look_at(Client& client, std::span<const std::string> keys, std::uint64_t process, std::vector<Operation>& history);

}  // namespace tandem::record
