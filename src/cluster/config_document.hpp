// A fleet's list of nodes, as clients read it (`config get cluster`) and as the fleet's registry keeps it; and what a
// node tells of itself there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::cluster {

// Bytes of a list that every known client reads (AWS's libmemcached reads no more), some 130 nodes.
inline constexpr std::size_t document_bytes_max = 8196;

// Where clients reach a server. Its name is host:port: a list that clients have then names every node.
struct Node {
  std::string host;  // lower case
  std::string ip;
  unsigned port = 0;

  std::string name() const { return host + ':' + std::to_string(port); }
  bool is_named_as(const Node& other) const noexcept { return port == other.port && host == other.host; }
  bool operator==(const Node&) const = default;
};

// Why clients would misread the node; empty: they read it.
std::string problem_of(const Node& node);

// A node's place among all that have joined. Some clients choose a node by its place, so it is kept while it is out.
struct Place {
  Node node;
  std::uint64_t out_since = 0;  // the version that left it out; 0: it is in the list

  bool is_in() const noexcept { return out_since == 0; }
  bool operator==(const Place&) const = default;
};

struct FleetConfig {
  std::uint64_t version = 0;       // rises with every change; 0: there is no list
  std::vector<Place> places = {};  // in the order of first joining

  std::size_t nodes() const noexcept;
  const Place* find(const Node& node) const noexcept;  // by its name
  bool operator==(const FleetConfig&) const = default;
};

// What clients read: the version, and the nodes that are in the list. Empty without a list.
std::string document_of(const FleetConfig& config);
// The list that clients have, every node in; nullopt: it is none that `document_of` writes.
std::optional<FleetConfig> read_document(std::string_view text);

enum class MemberState : std::uint8_t {
  serving,
  leaving,  // asked to go
  failing,  // its server does not answer
};
std::string_view name_of(MemberState state) noexcept;

struct MemberRecord {
  Node node;
  MemberState state = MemberState::failing;
  std::string boot = {};     // of the program that wrote it: two of one name are told apart
  std::uint64_t serves = 0;  // the version that its server had

  bool operator==(const MemberRecord&) const = default;
};

// JSON, as the registry keeps both. Readers return nullopt for anything else, also for nodes that clients would
// misread.
std::string to_json(const FleetConfig& config);
std::string to_json(const MemberRecord& record);
std::optional<FleetConfig> config_from_json(std::string_view text);
std::optional<MemberRecord> record_from_json(std::string_view text);

}  // namespace tandem::cluster
