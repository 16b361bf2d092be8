#include "cluster/config_document.hpp"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "codec/config_store.hpp"

namespace tandem::cluster {
namespace {

using Json = nlohmann::json;

constexpr std::size_t boot_bytes_max = 64;
constexpr std::size_t places_max = 4096;
constexpr unsigned port_max = 65535;
constexpr std::array<std::string_view, 3> state_names{"serving", "leaving", "failing"};

std::optional<Node> read_node(std::string_view text) {
  const std::size_t first = text.find('|'), last = text.rfind('|');
  if (first == std::string_view::npos || first == last) return std::nullopt;
  std::uint64_t port = 0;
  if (!read_list_number(text.substr(last + 1), 1, port_max, port)) return std::nullopt;
  Node node{std::string(text.substr(0, first)), std::string(text.substr(first + 1, last - first - 1)),
            static_cast<unsigned>(port)};
  if (!problem_of(node).empty()) return std::nullopt;
  return node;
}

Json node_json(const Node& node) { return {{"host", node.host}, {"ip", node.ip}, {"port", node.port}}; }

// The members throw Json::exception where the document has another form.
Node node_from(const Json& json) {
  const auto port = json.at("port").get<std::int64_t>();
  return {json.at("host").get<std::string>(), json.at("ip").get<std::string>(),
          port > 0 && port <= port_max ? static_cast<unsigned>(port) : 0};
}

std::uint64_t version_from(const Json& json) {
  const bool is_number = json.is_number_unsigned() && json.get<std::uint64_t>() <= ConfigStore::version_max;
  return is_number ? json.get<std::uint64_t>() : ConfigStore::version_max + 1;
}

// What `read` makes of an object, or nullopt.
template <class F>
auto from_object(std::string_view text, F read) -> decltype(read(Json())) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    return read(json);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

bool has_name_twice(const FleetConfig& config) {
  std::vector<std::string> names;
  for (const Place& place : config.places) names.push_back(place.node.name());
  std::ranges::sort(names);
  return std::ranges::adjacent_find(names) != names.end();
}

}  // namespace

std::string problem_of(const Node& node) {
  if (!is_list_host(node.host))
    return "the host \"" + node.host + "\" is no name of a to z in lower case, 0 to 9, - and ., as clients read it";
  if (!is_list_address(node.ip)) return "\"" + node.ip + "\" is no IPv4 or IPv6 address";
  if (node.port == 0 || node.port > port_max) return "the port is not between 1 and 65535";
  return {};
}

std::size_t FleetConfig::nodes() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(places, &Place::is_in));
}

const Place* FleetConfig::find(const Node& node) const noexcept {
  const auto found = std::ranges::find_if(places, [&](const Place& place) { return place.node.is_named_as(node); });
  return found == places.end() ? nullptr : &*found;
}

std::string document_of(const FleetConfig& config) {
  if (config.version == 0 || config.nodes() == 0) return {};
  std::string text = std::to_string(config.version) + '\n';
  for (const Place& place : config.places) {
    if (!place.is_in()) continue;
    if (text.back() != '\n') text += ' ';
    text += place.node.host + '|' + place.node.ip + '|' + std::to_string(place.node.port);
  }
  return text + '\n';
}

std::optional<FleetConfig> read_document(std::string_view text) {
  FleetConfig config;
  const std::size_t first_line = text.find('\n');
  if (first_line == std::string_view::npos || !text.ends_with('\n') ||
      !read_list_number(text.substr(0, first_line), 1, ConfigStore::version_max, config.version))
    return std::nullopt;
  text.remove_prefix(first_line + 1);
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(" \n");
    std::optional<Node> node = read_node(text.substr(0, end));
    const bool is_last = text[end] == '\n';
    text.remove_prefix(end + 1);
    // Text behind the second line, none behind a space.
    if (!node || is_last != text.empty()) return std::nullopt;
    config.places.push_back({std::move(*node)});
  }
  if (config.places.empty() || has_name_twice(config)) return std::nullopt;
  return config;
}

std::string_view name_of(MemberState state) noexcept { return state_names[static_cast<std::size_t>(state)]; }

std::string to_json(const FleetConfig& config) {
  Json places = Json::array();
  for (const Place& place : config.places) {
    Json json = node_json(place.node);
    if (!place.is_in()) json["out_since"] = place.out_since;
    places.push_back(std::move(json));
  }
  return Json{{"version", config.version}, {"nodes", std::move(places)}}.dump();
}

std::string to_json(const MemberRecord& record) {
  Json json = node_json(record.node);
  json.update({{"state", name_of(record.state)}, {"boot", record.boot}, {"serves", record.serves}});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<FleetConfig> config_from_json(std::string_view text) {
  return from_object(text, [](const Json& json) -> std::optional<FleetConfig> {
    FleetConfig config;
    config.version = version_from(json.at("version"));
    const Json& nodes = json.at("nodes");
    if (config.version == 0 || config.version > ConfigStore::version_max || !nodes.is_array() ||
        nodes.size() > places_max)
      return std::nullopt;
    for (const Json& node : nodes) {
      Place place{node_from(node)};
      if (node.contains("out_since")) place.out_since = version_from(node.at("out_since"));
      if (!problem_of(place.node).empty() || place.out_since > config.version) return std::nullopt;
      config.places.push_back(std::move(place));
    }
    if (config.nodes() == 0 || has_name_twice(config)) return std::nullopt;
    return config;
  });
}

std::optional<MemberRecord> record_from_json(std::string_view text) {
  return from_object(text, [](const Json& json) -> std::optional<MemberRecord> {
    MemberRecord record{.node = node_from(json)};
    const auto state = std::ranges::find(state_names, json.at("state").get<std::string>());
    record.boot = json.at("boot").get<std::string>();
    record.serves = version_from(json.at("serves"));
    if (!problem_of(record.node).empty() || state == state_names.end() || record.boot.size() > boot_bytes_max ||
        record.serves > ConfigStore::version_max)
      return std::nullopt;
    record.state = static_cast<MemberState>(state - state_names.begin());
    return record;
  });
}

}  // namespace tandem::cluster
